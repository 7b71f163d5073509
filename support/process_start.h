// Prepares a process at its start: its program's folder, limits of the machine and closed
// descriptors. Ends it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace rondo {

// Call it once, at the start of a program. A write beyond the file-size limit then fails (EFBIG)
// instead of killing the process. The soft limit of open files is raised to the hard limit.
// Descriptors 0 to 2 are open, so that no file of the run gets their number and the printed output.
// Programs that it starts allocate memory in huge pages, unless GLIBC_TUNABLES is set, and their
// threads spin briefly, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set: both are read before main.
void prepare_process();

// Flushes the streams, calls the functions of std::at_quick_exit, and ends the process. Destroys no
// static objects: LibTorch's destructors undo the registrations of its load, which takes a quarter
// of the time of a process that only loads it.
[[noreturn]] inline void end_process(int exit_code) {
  std::fflush(nullptr);
  std::quick_exit(exit_code);
}

// Returns the folder of this process's program. The programs that it starts are in the same folder.
std::filesystem::path program_folder();

// Returns the folder whose configs/ belongs to this program: share/rondo of an installed program,
// the project of a program in its build folder. Returns "" where there is none.
std::filesystem::path shared_folder();

// Returns `path` of the current folder, or that of shared_folder() if only this one exists.
std::string here_or_shipped(const std::string& path);

// Returns whether this program was installed: it is in bin/ beside share/rondo.
bool is_installed();

// Throws Error(resources) with the limit and `needed` if fewer than `needed` files may be open.
void require_descriptors(int needed);

}  // namespace rondo

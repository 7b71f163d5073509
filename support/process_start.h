// What a process was started with: its program, and what would end it in an odd way, limits of the machine
// and closed descriptors.
#pragma once

#include <filesystem>

namespace rondo {

// Once, at the start of a program: a write beyond the file-size limit fails (EFBIG) instead of killing the
// process, the number of open files is limited by the hard limit and not by the soft one, and descriptors 0
// to 2 are open, so that no file of the run becomes one of them and gets what is printed.
void prepare_process();

// Where the program of this process lies; those that it starts lie beside it.
std::filesystem::path program_folder();

// Throws Error(resources) naming the limit and both numbers where fewer than `needed` files may be open.
void require_descriptors(int needed);

}  // namespace rondo

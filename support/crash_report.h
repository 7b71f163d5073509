// Reports a crash: signal, address, thread, current work and stack. The report goes to stderr and,
// once set, to a file. The signal then takes its default action, so exit status and core dump are
// those of the crash.
#pragma once

#include <string>

#include "support/scope.h"

namespace rondo {

// Installs the handler for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT. Call it once, before other
// threads start. Costs nothing until a crash.
void install_crash_report(int rank);

// Sets a file for the report, in addition to stderr. Paths over 4095 bytes are ignored.
void set_crash_file(const std::string& file);

// The current work of a thread: an op, its module and the phase of the step.
struct CurrentWork {
  const char* what = nullptr;  // nullptr: no work
  const char* where = nullptr;
  Phase phase = Phase::forward;
};
// Work of this thread. The texts must stay valid until the next call.
void set_current_work(const CurrentWork& work);
const CurrentWork& current_work();

}  // namespace rondo

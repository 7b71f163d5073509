// What a process says when it dies of a bug: signal, address, thread, what it was doing, and the stack; on
// stderr, and in a file once there is a place for one. The signal then takes its course: the exit status and
// the core dump are those of the crash itself.
#pragma once

#include <string>

#include "support/scope.h"

namespace rondo {

// For SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT. Once, before other threads; costs nothing until it
// happens.
void install_crash_report(int rank);

// Where the report is written too. Paths over 4095 bytes are not taken.
void set_crash_file(const std::string& file);

// What a thread is about to do: an op, the module it works for, the phase of the step.
struct CurrentWork {
  const char* what = nullptr;  // nullptr: nothing to name
  const char* where = nullptr;
  Phase phase = Phase::forward;
};
// Of this thread. The texts must live until the next call.
void set_current_work(const CurrentWork& work);
const CurrentWork& current_work();

}  // namespace rondo

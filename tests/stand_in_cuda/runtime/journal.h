// Records a process's use of the stand-in as lines of text: `word key=value ...`. Every line is
// written at once, so that it survives any end of the process. Counts of calls and of live objects
// are written at exit.
//
// The variable RONDO_STAND_IN names a folder; the journal of a rank is its file rankN.txt, created
// at the first call. Without the variable nothing is written. REQUIRES for every function: the lock
// of state.h is held.
#pragma once

#include <cstdint>
#include <string>

namespace stand_in::journal {

// Writes a line of the journal, formatted by printf.
[[gnu::format(printf, 1, 2)]] void line(const char* format, ...);

// Counts a call by its name. Returns the error that the call must return, normally 0.
// RONDO_STAND_IN_FAIL is "NAME:N:CODE": from the Nth call of NAME on, each fails with CODE. After
// an error that destroys the context (700 to 719), every call fails with it.
int count(const char* call);
std::int64_t calls();  // of this thread so far, of all names
// The same for a function of a library beside the runtime. It is no call of the thread.
int fault(const char* call);

// Whether the call must be lost. RONDO_STAND_IN_LOSE is "NAME:N": the Nth call of NAME after the
// first capture has begun, or "NAME:0": all of them.
bool lose(const char* call);
void note_capture();  // a capture begins

// Returns values for the host that no kernel computes. RONDO_STAND_IN_ANSWER is
// "counts:BYTES:NUMBER": a copy of BYTES bytes from a device gives the host i32s of that number.
// -1: the actual memory.
int answer(std::size_t bytes);

// Returns how long a library's kernel delays the host, so that another one is faster.
// RONDO_STAND_IN_SLOW is "NAME:MICROSECONDS".
std::int64_t slow_us(const char* kernel);

// RONDO_STAND_IN_BUG is "NAME:N". Returns true once, at the Nth opportunity for the bug NAME.
bool bug(const char* name);

// Registers a number of the summary, which is computed when the process exits.
void at_exit(const char* name, std::int64_t (*live)());

}  // namespace stand_in::journal

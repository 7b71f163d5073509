// What a process did with the stand-in, as lines of text: `word key=value ...`. Every line is written at
// once, so that it is there however the process ends; the counts of calls and the objects that live come when
// it exits.
//
// The variable RONDO_STAND_IN names a folder; the journal of a rank is its file rankN.txt, made at the first
// call. Without the variable nothing is written. REQUIRES, of every function: the lock of state.h is held.
#pragma once

#include <cstdint>
#include <string>

namespace stand_in::journal {

// Printf into a line of the journal.
[[gnu::format(printf, 1, 2)]] void line(const char* format, ...);

// Counts a call by its name. Returns what the call has to fail with, 0 as a rule: RONDO_STAND_IN_FAIL is
// "NAME:N:CODE", and from the Nth call of NAME on each fails with CODE. After an error that a context does
// not survive (700 to 719) every call fails with it.
int count(const char* call);
std::int64_t calls();  // of this thread so far, of all names

// Whether the call is one that has to be lost: RONDO_STAND_IN_LOSE is "NAME:N", the Nth call of NAME after
// the first capture has begun, or "NAME:0", all of them.
bool lose(const char* call);
void note_capture();  // one begins

// What the host has to read, since no kernel computes it: RONDO_STAND_IN_ANSWER is "counts:BYTES:NUMBER", and
// a copy of so many bytes from a device gives the host i32s of that number. -1: what is there.
int answer(std::size_t bytes);

// How long a library's kernel keeps the host, so that another one is faster: RONDO_STAND_IN_SLOW is
// "NAME:MICROSECONDS".
std::int64_t slow_us(const char* kernel);

// RONDO_STAND_IN_BUG is "NAME:N". True once, when the Nth chance for the bug NAME comes.
bool bug(const char* name);

// What a number of the summary is, asked for when the process exits.
void at_exit(const char* name, std::int64_t (*live)());

}  // namespace stand_in::journal

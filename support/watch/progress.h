// The progress of a process, readable by others even if it hangs or was killed. It is in a page of
// memory that the launcher creates and passes on, or else in the process itself.
//
// Process-wide, like the crash report. Any thread may write notes; a note costs a few stores and no
// system call. Texts that are too long are cut. Readers and writers do not wait for each other:
// numbers are consistent, but texts may be torn during a change. So read texts when nothing changes
// any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/scope.h"

namespace rondo::progress {

enum class Doing : std::int32_t { starting, between_steps, training, loading, validating, agreeing, saving };

// --- written by a rank ---

// From here on the notes of this process go to the launcher's page, if there is one
// (RONDO_PROGRESS_FD). Call it before other threads start.
void join_launcher();

void at_step(std::int64_t step);  // the current step, from 1
std::int64_t step();
void saved(std::int64_t step);  // a checkpoint of this step exists
void running(std::string_view op, std::string_view module, Phase phase);
void running_nothing();
// Notes a call of the collective `name`, number `in_group` of its group, for `module`. `calls`
// collectives were called before it.
void called(std::int64_t calls, std::string_view name, std::string_view group, std::int64_t in_group,
            std::string_view module);
void waits_for(std::string_view name, std::string_view group, std::int64_t in_group, std::string_view module);
void waits_no_more();

// The kind of work that the process does during the lifetime of the object.
class Work {
 public:
  explicit Work(Doing doing);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  const Doing outer_;
};

// The file that this thread reads during the lifetime of the object.
class Reading {
 public:
  explicit Reading(std::string_view path);
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

// --- read by others ---

struct Seen {
  Doing doing = Doing::starting;
  std::int64_t step = 0;    // current step, from 1; 0: before the first
  std::int64_t saved = -1;  // step of the latest checkpoint; -1: no checkpoint
  std::int64_t notes = 0;   // number of notes so far; constant when the process makes no progress
  std::int64_t calls = 0;   // collectives called
  bool waits = false;       // for `collective`; otherwise that was called last
  std::string collective;   // "all_gather 12 of group dp"; empty: no call yet
  std::string module;       // of the op, or of the awaited collective
  std::string op;           // the running op; empty: between two ops
  Phase phase = Phase::forward;
  std::string file;  // the file of the longest current read; empty: no read
};
Seen seen();
std::int64_t notes();

// Returns "in a read of data/a.txt", "in all_gather 12 of group dp for layers.0", "at aten.mm for
// layers.0 (forward)" or "between steps".
std::string where(const Seen& seen);

// The launcher's end of one rank's page.
class Page {
 public:
  Page();  // throws Error(resources)
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  int fd() const { return fd_; }  // inherited by the rank; close-on-exec otherwise
  // Returns nullopt if no rank of Rondo has joined the page. The content is untrusted: texts may
  // hold any bytes.
  std::optional<Seen> seen() const;
  std::int64_t notes() const;

 private:
  int fd_;
  void* memory_;
};

}  // namespace rondo::progress

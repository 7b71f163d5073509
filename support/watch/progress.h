// Where a process is in its run, kept where others see it though the process stands still or was killed: in a
// page of memory that the launcher made and hands on, or else in one of the process itself.
//
// Process-wide, like the crash report. Any thread may note something; that costs some stores and no system
// call. Texts longer than their place are cut. Reader and writer do not wait for each other: numbers are
// whole, texts may be torn while they change, so they are worth reading when nothing moves any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/scope.h"

namespace rondo::progress {

enum class Doing : std::int32_t { starting, between_steps, training, loading, validating, agreeing, saving };

// --- written by a rank ---

// From here on the notes of this process go into the launcher's page, where there is one (RONDO_PROGRESS_FD).
// Before other threads.
void join_launcher();

void at_step(std::int64_t step);  // under way, from 1
std::int64_t step();
void saved(std::int64_t step);  // there is a checkpoint of it
void running(std::string_view op, std::string_view module, Phase phase);
void running_nothing();
// The collective `name`, number `in_group` of its group, for `module`: `calls` were called before it.
void called(std::int64_t calls, std::string_view name, std::string_view group, std::int64_t in_group,
            std::string_view module);
void waits_for(std::string_view name, std::string_view group, std::int64_t in_group, std::string_view module);
void waits_no_more();

// What the process is doing while this lives.
class Work {
 public:
  explicit Work(Doing doing);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  const Doing outer_;
};

// The file that this thread is reading while this lives.
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
  std::int64_t step = 0;    // under way, from 1; 0: none yet
  std::int64_t saved = -1;  // step of the latest checkpoint; -1: none
  std::int64_t notes = 0;   // so far: it stands still when the process does
  std::int64_t calls = 0;   // of collectives
  bool waits = false;       // for the collective; else that was called last
  std::string collective;   // "all_gather 12 of group dp"; empty: none yet
  std::string module;       // of the op, or of the collective that is waited for
  std::string op;           // running; empty: between two
  Phase phase = Phase::forward;
  std::string file;  // being read, for the longest time; empty: none
};
Seen seen();
std::int64_t notes();

// "in a read of data/a.txt", "in all_gather 12 of group dp for layers.0", "at aten.mm for layers.0
// (forward)", "between steps"
std::string where(const Seen& seen);

// The launcher's end of one rank's page.
class Page {
 public:
  Page();  // throws Error(resources)
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  int fd() const { return fd_; }  // for the rank to inherit, closed by exec otherwise
  // Nothing where no rank of ours has joined it. What stands there is the rank's word: texts may hold any
  // bytes.
  std::optional<Seen> seen() const;
  std::int64_t notes() const;

 private:
  int fd_;
  void* memory_;
};

}  // namespace rondo::progress

// The record is a ring buffer under one mutex. `keep` allocates it in one block, and entry n is at
// n modulo the capacity. Texts repeat from step to step, so each is stored once and entries point
// to it. Copies in the entries would stay between the large buffers of a step for thousands of
// steps and keep the heap from returning them. `done` and `waited_for` find an entry only while it
// has their number, so they never mark an entry that overwrote it. Collectives are counted per
// group, because only this number is the same on all ranks. The blocking entry is the oldest one
// with a waiter, or else the oldest that is not done. Bytes that are not UTF-8 are replaced, so
// that writing the file cannot throw.
#include "parallel/groups/comm_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <vector>

#include "support/crash_report.h"
#include "support/scope.h"
#include "support/watch/progress.h"

namespace rondo::comm_record {
namespace {

using Clock = std::chrono::steady_clock;

enum class State { called, waited_for, done };

// What a program calls repeatedly: module, op, collective, group, dtype, phase. The order puts the
// text that differs most first. Element counts are not part of it, since exchanges by exact counts
// have other counts in each step.
template <class Text>
using TextsOf = std::tuple<Text, Text, Text, Text, Text, Text>;
using Texts = TextsOf<std::string>;
enum TextIndex : std::size_t { kModule, kOp, kCollective, kGroup, kDtype, kPhase };

struct Entry {
  std::int64_t number = comm_record::kNotRecorded, in_group = 0, step = 0;
  const Texts* texts = nullptr;
  std::int64_t input_elements = 0, output_elements = 0;
  State state = State::called;
  std::chrono::system_clock::time_point called_at;
  Clock::time_point called, waited_for, done;

  template <std::size_t kIndex>
  const auto& text() const {
    return std::get<kIndex>(*texts);
  }
};

struct Record {
  std::mutex mutex;
  std::int64_t next = 0;
  double waited_s = 0;      // over all entries that are done
  std::vector<Entry> ring;  // entry `number` at number % ring.size()
  std::set<Texts, std::less<>> texts;
  std::map<std::string, std::int64_t, std::less<>> calls_of_group;

  // Returns nullptr where the entry is overwritten or was never recorded.
  Entry* find(std::int64_t number) {
    if (number < 0 || ring.empty() || number >= next) return nullptr;
    Entry& entry = ring[static_cast<std::size_t>(number) % ring.size()];
    return entry.number == number ? &entry : nullptr;
  }
  template <class F>
  void for_each(F f) {
    for (std::int64_t number = std::max<std::int64_t>(0, next - std::ssize(ring)); number < next; ++number)
      f(*find(number));
  }
  // Returns the oldest entry with a waiter, or else the oldest that is not done.
  const Entry* blocking() {
    const Entry* oldest = nullptr;
    for_each([&](const Entry& entry) {
      if (entry.state == State::done) return;
      const bool waits = entry.state == State::waited_for;
      if (oldest == nullptr || (waits && oldest->state != State::waited_for)) oldest = &entry;
    });
    return oldest;
  }
};

Record& record() {
  static Record instance;
  return instance;
}

const Texts* texts_of(Record& r, const Call& call, std::string_view op, std::string_view module,
                      std::string_view phase) {
  const TextsOf<std::string_view> key(module, op, call.collective, call.group, call.dtype, phase);
  auto known = r.texts.find(key);
  if (known == r.texts.end()) known = r.texts.emplace(std::make_from_tuple<Texts>(key)).first;
  return &*known;
}

// Takes op and module from the graph's current node, or else from the scopes of an eager step.
const Texts* texts_of(Record& r, const Call& call) {
  const CurrentWork& work = current_work();
  if (work.what != nullptr) return texts_of(r, call, work.what, work.where, phase_name(work.phase));
  const std::string module = module_path();
  return texts_of(r, call, "", module, module.empty() ? "" : phase_name(current_phase()));
}

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

const char* name_of(State state) {
  switch (state) {
    case State::called:
      return "called";
    case State::waited_for:
      return "waited_for";
    case State::done:
      return "done";
  }
  return "?";
}

std::string describe(const Entry& entry) {
  const std::string whom = entry.text<kModule>().empty() ? "" : " for " + entry.text<kModule>();
  const std::string phase = entry.text<kPhase>().empty() ? "" : entry.text<kPhase>() + ", ";
  const bool waits = entry.state == State::waited_for;
  const double elapsed_s = seconds(waits ? entry.waited_for : entry.called, Clock::now());
  return fmt::format(
      "{} of {} {} in group {}{} ({}step {}), {}", entry.text<kCollective>(), entry.input_elements,
      entry.text<kDtype>(), entry.text<kGroup>(), whom, phase, entry.step,
      waits ? fmt::format("waited for {:.1f} s", elapsed_s) : fmt::format("called {:.1f} s ago", elapsed_s));
}

nlohmann::ordered_json json_of(const Entry& entry) {
  const Clock::time_point end = entry.state == State::done ? entry.done : Clock::now();
  return {
      {"number", entry.number},
      {"in_group", entry.in_group},
      {"step", entry.step},
      {"collective", entry.text<kCollective>()},
      {"group", entry.text<kGroup>()},
      {"dtype", entry.text<kDtype>()},
      {"input_elements", entry.input_elements},
      {"output_elements", entry.output_elements},
      {"op", entry.text<kOp>()},
      {"module", entry.text<kModule>()},
      {"phase", entry.text<kPhase>()},
      {"state", name_of(entry.state)},
      {"called_at",
       fmt::format("{:%FT%T}Z", std::chrono::time_point_cast<std::chrono::microseconds>(entry.called_at))},
      {"called_s", seconds(entry.called, end)},
      {"waited_s", entry.state == State::called ? 0.0 : seconds(entry.waited_for, end)}};
}

}  // namespace

void keep(std::size_t entries) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  r.next = 0;
  r.ring = std::vector<Entry>(entries);
  r.texts.clear();
  r.calls_of_group.clear();
}

std::size_t record_bytes(std::size_t entries) { return entries * sizeof(Entry); }

std::size_t kept() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  return r.ring.size();
}

std::int64_t called(const Call& call) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  if (r.ring.empty()) return kNotRecorded;
  const std::int64_t number = r.next++;
  Entry& entry = r.ring[static_cast<std::size_t>(number) % r.ring.size()];
  auto calls = r.calls_of_group.find(call.group);
  if (calls == r.calls_of_group.end()) calls = r.calls_of_group.emplace(std::string(call.group), 0).first;
  entry.number = number;
  entry.in_group = calls->second++;
  entry.step = progress::step();
  entry.texts = texts_of(r, call);
  entry.input_elements = call.input_elements;
  entry.output_elements = call.output_elements;
  entry.state = State::called;
  entry.called_at = std::chrono::system_clock::now();
  entry.called = Clock::now();
  progress::called(number, entry.text<kCollective>(), entry.text<kGroup>(), entry.in_group,
                   entry.text<kModule>());
  return number;
}

void waited_for(std::int64_t number) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  Entry* entry = r.find(number);
  if (entry == nullptr || entry->state != State::called) return;
  entry->state = State::waited_for;
  entry->waited_for = Clock::now();
  progress::waits_for(entry->text<kCollective>(), entry->text<kGroup>(), entry->in_group,
                      entry->text<kModule>());
}

void done(std::int64_t number) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  Entry* entry = r.find(number);
  if (entry == nullptr || entry->state == State::done) return;
  entry->done = Clock::now();
  progress::waits_no_more();
  if (entry->state == State::called) entry->waited_for = entry->done;
  entry->state = State::done;
  r.waited_s += seconds(entry->waited_for, entry->done);
}

double waited_s() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  return r.waited_s;
}

bool is_empty() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  return r.next == 0;
}

std::string under_way() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  const Entry* entry = r.blocking();
  return entry == nullptr ? "" : describe(*entry);
}

std::string to_json(int rank, int world_size, std::string_view reason) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  const Entry* blocking = r.blocking();
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  r.for_each([&](const Entry& entry) { entries.push_back(json_of(entry)); });
  const nlohmann::ordered_json file = {
      {"rank", rank},
      {"world_size", world_size},
      {"step", progress::step()},
      {"reason", reason},
      {"under_way", blocking == nullptr ? nlohmann::ordered_json() : json_of(*blocking)},
      {"entries", entries}};
  return file.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rondo::comm_record

// Accounts for the time of a run over all its starts: the steps that count, and what the rest was
// lost to.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct RunRecord;

// Collects what the events of a run say of time, in seconds. Events of older versions say less, and
// what they leave out counts as other time.
class EventTimes {
 public:
  // Adds an event of events.jsonl. REQUIRES: all events before it are added.
  void add(const nlohmann::ordered_json& event);

  int starts() const { return starts_; }
  double began_s() const { return began_s_; }  // the first start, since the epoch
  double starting_s() const { return starting_s_; }
  double validating_s() const { return validating_s_; }
  double saving_s() const { return saving_s_; }  // while training waited
  double down_s() const { return down_s_; }      // between an end and the next start

 private:
  int starts_ = 0;
  double began_s_ = 0, starting_s_ = 0, validating_s_ = 0, saving_s_ = 0, down_s_ = 0;
};

struct TimeSpent {
  struct Part {
    const char* name;  // "computed again"
    double seconds;
  };
  int starts = 0;
  // From the first start to the end, or to the last line of a run that trains; at least the sum of
  // the parts, which steady clocks measured.
  double total_s = 0;
  double training_s = 0;     // in the steps of metrics.jsonl, without their waits for data
  std::vector<Part> losses;  // all other time, the longest first; each part is positive

  // Returns the share of the time that trained the model, 0 to 1.
  double goodput() const { return training_s / total_s; }
};

// Returns nullopt for a run without a step, or whose events do not say when it began.
std::optional<TimeSpent> time_spent(const RunRecord& run);
// Returns "goodput 92.1 % of 2h10m in 3 starts; lost: 4m00s computed again, 3m00s down". Losses
// below half a second are left out.
std::string goodput_text(const TimeSpent& time);

}  // namespace rondo

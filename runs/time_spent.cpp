// Steps, validations, saves and starts are measured by the run itself. What they leave of the time
// between a start and its end is `other`: a step that failed or hung, and the end. A killed run
// leaves no end, so its last line is taken for it, and the rest is down time.
#include "runs/time_spent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runs/run_record.h"
#include "support/text/utc_time.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

double seconds_at(const ordered_json& event, const char* key) {
  const auto it = event.find(key);
  return it != event.end() && it->is_number() ? std::max(it->get<double>(), 0.0) : 0;
}

std::optional<double> time_at(const ordered_json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? utc_seconds(it->get_ref<const std::string&>())
                                               : std::nullopt;
}

double sum_of(const StepSeries& steps, std::string_view name) {
  const std::size_t quantity = quantity_named(name);
  double sum = 0;
  for (const LineGroup& group : steps.groups()) sum += group.extents[quantity].sum;
  return sum;
}

}  // namespace

void EventTimes::add(const ordered_json& event) {
  const ordered_json name = event.value("event", ordered_json(nullptr));
  if (name == "start") {
    const std::optional<double> time_s = time_at(event, "time");
    if (!time_s) return;
    const double began_s = *time_s - seconds_at(event, "seconds");
    if (++starts_ == 1)
      began_s_ = began_s;
    else if (const auto ended_s = time_at(event, "ended_before"))
      down_s_ += std::max(began_s - *ended_s, 0.0);
  } else if (name == "training") {
    starting_s_ += seconds_at(event, "seconds");
  } else if (name == "validation") {
    validating_s_ += seconds_at(event, "seconds");
  } else if (name == "checkpoint") {
    saving_s_ += seconds_at(event, "waited_s");
  }
}

std::optional<TimeSpent> time_spent(const RunRecord& run) {
  const EventTimes& events = run.times;
  const std::optional<double> ended_s =
      run.exit.is_object() ? time_at(run.exit, "ended_at") : std::optional(run.last_written_s);
  if (run.log.steps.empty() || events.starts() == 0 || !ended_s || *ended_s <= events.began_s())
    return std::nullopt;
  const double waiting_s = sum_of(run.log.steps, "data_wait_s");
  TimeSpent time{.starts = events.starts(),
                 .total_s = *ended_s - events.began_s(),
                 .training_s = sum_of(run.log.steps, "step_time_s") - waiting_s,
                 .losses = {{"computed again", run.repeated_s},
                            {"down", events.down_s()},
                            {"starting", events.starting_s()},
                            {"saving", events.saving_s()},
                            {"validating", events.validating_s()},
                            {"waiting for data", waiting_s}}};
  double parts_s = time.training_s;
  for (const TimeSpent::Part& part : time.losses) parts_s += part.seconds;
  time.total_s = std::max(time.total_s, parts_s);  // where a clock went back, the parts are the whole
  time.losses.push_back({"other", time.total_s - parts_s});
  std::erase_if(time.losses, [](const TimeSpent::Part& part) { return part.seconds <= 0; });
  std::ranges::stable_sort(time.losses, std::greater(), &TimeSpent::Part::seconds);
  return time;
}

std::string goodput_text(const TimeSpent& time) {
  std::vector<std::string> losses;
  for (const auto& [name, seconds] : time.losses)
    if (seconds >= 0.5) losses.push_back(format_duration(seconds) + " " + name);
  return fmt::format("goodput {:.1f} % of {}{}{}{}", 100 * time.goodput(), format_duration(time.total_s),
                     time.starts == 1 ? "" : fmt::format(" in {} starts", time.starts),
                     losses.empty() ? "" : "; lost: ", fmt::join(losses, ", "));
}

}  // namespace rondo

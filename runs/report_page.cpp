// Writes the data of the page as JSON. Long parts are written by hand: numbers of six digits, and a
// point of a curve for each group of lines. The script in report.html reads the data and describes
// its form.
#include "runs/report_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "runs/compare_runs.h"
#include "runs/curves.h"
#include "runs/event_text.h"
#include "runs/rank_runs.h"
#include "runs/report_html.h"
#include "support/text/html.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kPlacesOfACurve = 600;
constexpr std::size_t kEventsShown = 100;

std::string json_digits(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : std::string("null");
}

ordered_json json_value(std::optional<double> value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
}

std::string places_json(const std::vector<LineGroup>& groups) {
  std::vector<std::int64_t> step, tokens;
  std::vector<std::string> seconds;
  for (const LineGroup& group : groups) {
    step.push_back(group.last.step);
    tokens.push_back(group.last.tokens_seen);
    seconds.push_back(json_digits(group.seconds));
  }
  return fmt::format(R"({{"step":[{}],"tokens":[{}],"seconds":[{}]}})", fmt::join(step, ","),
                     fmt::join(tokens, ","), fmt::join(seconds, ","));
}

// Returns "" if no line has a value.
std::string curve_json(std::size_t quantity, const std::vector<LineGroup>& groups, int table) {
  std::vector<std::string> mean, low, high;
  bool any = false, several = false;
  for (const LineGroup& group : groups) {
    const Extent& extent = group.extents[quantity];
    any |= extent.count > 0;
    several |= group.lines > 1;
    mean.push_back(extent.count > 0 ? json_digits(extent.mean()) : "null");
    low.push_back(json_digits(extent.low));
    high.push_back(json_digits(extent.high));
  }
  if (!any) return "";
  std::string json =
      fmt::format(R"("{}":{{"x":{},"mean":[{}])", quantities()[quantity].name, table, fmt::join(mean, ","));
  if (several) json += fmt::format(R"(,"low":[{}],"high":[{}])", fmt::join(low, ","), fmt::join(high, ","));
  return json + "}";
}

std::string curves_json(const StepSeries& series) {
  const std::vector<LineGroup> steps = merged(series.groups(), kPlacesOfACurve);
  const std::vector<LineGroup> validations = merged(series.validations(), kPlacesOfACurve);
  std::vector<std::string> curves;
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const bool is_validation = q == quantity_named("validation_loss");
    std::string curve = curve_json(q, is_validation ? validations : steps, is_validation ? 1 : 0);
    if (!curve.empty()) curves.push_back(std::move(curve));
  }
  return fmt::format(R"("x":[{},{}],"curves":{{{}}})", places_json(steps), places_json(validations),
                     fmt::join(curves, ","));
}

ordered_json summary_json(const RunRecord& run, const LossAtTokens& at) {
  const StepSeries& series = run.log.steps;
  const Speed speed = speed_of(series);
  return {{"step", series.last().step},
          {"steps", run.setting("training.steps")},
          {"tokens", series.last().tokens_seen},
          {"loss", json_value(series.last().loss)},
          {"validation_loss", json_value(series.validation_loss().best)},
          {"loss_at_tokens", json_value(at.loss)},
          {"validation_loss_at_tokens", json_value(at.validation_loss)},
          {"tokens_per_s", json_value(speed.tokens_per_s)},
          {"step_time_s", json_value(speed.step_time_s)},
          {"memory_gib", json_value(speed.peak_memory_gib)},
          {"seconds", json_value(series.groups().back().seconds)}};
}

// Returns null for a run that does not say it. The parts begin with the steps that count.
ordered_json time_json(const RunRecord& run) {
  const std::optional<TimeSpent> time = time_spent(run);
  if (!time) return nullptr;
  ordered_json parts = ordered_json::array({ordered_json::array({"training", time->training_s})});
  for (const auto& [name, seconds] : time->losses) parts.push_back(ordered_json::array({name, seconds}));
  return {{"starts", time->starts}, {"total", time->total_s}, {"goodput", time->goodput()}, {"parts", parts}};
}

// Returns rows [time, sentence].
ordered_json events_json(const RunRecord& run) {
  ordered_json rows = ordered_json::array();
  for (const auto& [time, sentence] : last_events(run, kEventsShown)) rows.push_back({time, sentence});
  return rows;
}

// Returns the steps whose checkpoints the run resumed from.
ordered_json resumed_json(const RunRecord& run) {
  ordered_json steps = ordered_json::array();
  for (const ordered_json& event : run.events)
    if (event.value("event", ordered_json(nullptr)) == "resumed")
      if (const ordered_json step = event.value("step", ordered_json(nullptr)); step.is_number_integer())
        steps.push_back(step);
  return steps;
}

// Flattens nested objects to keys like "versions.torch"; a list becomes text.
ordered_json environment_json(const RunRecord& run) {
  ordered_json flat = ordered_json::object();
  if (std::error_code none; std::filesystem::exists(run.log.folder / "console.log", none))
    flat["console log"] = (run.log.folder / "console.log").string();
  if (!run.environment.is_object()) return flat;
  for (const auto& [key, value] : run.environment.items()) {
    if (value.is_object())
      for (const auto& [inner, of_inner] : value.items()) flat[key + "." + inner] = text_of_json(of_inner);
    else
      flat[key] = text_of_json(value);
  }
  return flat;
}

// Returns the last loads, one row per router; null without experts.
ordered_json experts_json(const RunRecord& run) {
  const ordered_json& last = run.expert_load;
  if (last.is_null()) return nullptr;
  const auto loads = last.find("tokens_per_expert");
  if (loads == last.end() || !loads->is_object()) return nullptr;
  ordered_json rows = ordered_json::array();
  for (const auto& [router, tokens] : loads->items()) rows.push_back({router, tokens});
  return {{"step", last.value("step", ordered_json(nullptr))}, {"rows", rows}};
}

std::string run_json(const RunRecord& run, const std::string& name, const LossAtTokens& at) {
  const ordered_json model = run.event("model");
  ordered_json head = {
      {"name", name},
      {"state", run.state()},
      {"ok", run.exit.is_null() ? ordered_json(nullptr) : ordered_json(run.state() == "finished")},
      {"executor", run.executor()},
      {"model", run.model()},
      {"layout", model.is_object() ? text_of_json(model.value("layout", ordered_json(""))) : ""},
      {"summary", summary_json(run, at)},
      {"time", time_json(run)},
      {"events", events_json(run)},
      {"resumed", resumed_json(run)},
      {"environment", environment_json(run)},
      {"experts", experts_json(run)}};
  std::string json = text_of_json(head);
  json.pop_back();
  return json + "," + curves_json(run.log.steps) + "}";
}

ordered_json config_json(const std::vector<const RunLog*>& logs) {
  ordered_json rows = ordered_json::array();
  for (const ConfigRow& row : config_rows(logs)) {
    ordered_json cells = {row.key};
    for (const std::string& value : row.values) cells.push_back(value);
    rows.push_back(cells);
  }
  return rows;
}

}  // namespace

std::string report_page(const std::vector<RunRecord>& runs) {
  std::vector<const RunLog*> logs;
  for (const RunRecord& run : runs) logs.push_back(&run.log);
  const Ranking ranking = rank_runs(logs);
  const std::vector<std::string> names = short_names(runs);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < runs.size(); ++i)
    parts.push_back(run_json(runs[i], names[i], ranking.losses[i]));
  ordered_json shared = {{"tokens", ranking.tokens}, {"best_first", ranking.best_first}};
  shared["quantities"] = ordered_json::array();
  for (const Quantity& q : quantities())
    shared["quantities"].push_back(
        {{"name", q.name}, {"title", q.title}, {"unit", q.unit}, {"log", q.on_log_axis}});
  shared["config"] = config_json(logs);
  std::string json = text_of_json(shared);
  json.pop_back();
  json += fmt::format(R"(,"runs":[{}]}})", fmt::join(parts, ","));
  const std::string title =
      runs.size() <= 3 ? fmt::format("{}", fmt::join(names, ", ")) : fmt::format("{} runs", runs.size());
  return filled_page(kReportHtml, {{"@TITLE@", escaped_html(title)},
                                   {"@HEADING@", escaped_html(title)},
                                   {"@DATA@", json_in_script(json)}});
}

}  // namespace rondo

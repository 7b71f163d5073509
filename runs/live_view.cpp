// Builds the view from the record alone, without state between calls. Lines are truncated by
// characters, not bytes, since a torn UTF-8 character would disturb the terminal. The time left
// follows from the median of the last steps: a step that waits for a disk does not make it jump.
#include "runs/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runs/event_text.h"
#include "runs/report_text.h"
#include "support/median.h"
#include "support/printable.h"
#include "support/text/numbers.h"
#include "support/text/size_text.h"
#include "support/utf8.h"

namespace rondo {
namespace {

constexpr std::size_t kEvents = 6;

std::string fitted(const std::string& line, int columns) {
  std::size_t at = 0;
  for (int used = 0; at < line.size() && used < columns; ++used)
    at += std::max<std::size_t>(utf8_length(std::string_view(line).substr(at)), 1);
  return line.substr(0, at) + "\n";
}

std::string bar(double share, int columns) {
  const int done = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns));
  std::string text;
  for (int i = 0; i < columns; ++i) text += i < done ? "█" : "░";
  return text;
}

// Returns the time left at the median pace of the last steps.
std::string time_left(const StepSeries& series, std::int64_t steps) {
  std::vector<double> seconds;
  for (const StepMetrics& line : series.recent()) seconds.push_back(line.step_time_s);
  const std::int64_t left = std::max<std::int64_t>(steps - series.last().step, 0);
  return format_duration(median(std::move(seconds)) * static_cast<double>(left));
}

std::string state_line(const RunRecord& run) {
  const auto model = run.event("model"), start = run.event("start");
  std::string text = run.exit.is_null() ? "training" : run.state();
  if (model.is_object()) text += ", " + run.model();
  if (start.is_object())
    text += fmt::format(", ranks: {}", text_of_json(start.value("ranks", nlohmann::ordered_json(""))));
  if (model.is_object() && !text_of_json(model.value("layout", nlohmann::ordered_json(""))).empty())
    text += fmt::format(" ({})", text_of_json(model["layout"]));
  return text;
}

std::vector<std::string> step_lines(const RunRecord& run, int columns) {
  const StepSeries& series = run.log.steps;
  const StepMetrics& last = series.last();
  const std::int64_t steps =
      number_in<std::int64_t>(run.setting("training.steps"), 1, INT64_MAX).value_or(last.step);
  const double share = static_cast<double>(last.step) / static_cast<double>(steps);
  std::vector<std::string> text = {
      fmt::format("step {} of {}, {:.1f} %, {} tokens{}", last.step, steps, 100 * share,
                  count_text(last.tokens_seen),
                  run.exit.is_null() ? ", " + time_left(series, steps) + " left" : std::string()),
      bar(share, columns),
      fmt::format("loss {:.5f}   grad_norm {:.4f}   lr {:.3e}", last.loss, last.grad_norm, last.lr),
      fmt::format("tokens/s {:.0f} a rank   step {:.1f} ms   waits for data {:.1f} %   memory {}",
                  last.tokens_per_s, 1e3 * last.step_time_s, 100 * last.data_wait_fraction,
                  size_text(std::llround(last.memory_gib * (1 << 30))))};
  if (!series.validations().empty()) {
    const StepMetrics& validated = series.validations().back().last;
    text[2] += fmt::format("   validation {:.4f} (step {})", *validated.validation_loss, validated.step);
  }
  if (last.load_imbalance) text[3] += fmt::format("   fullest expert {:.2f} x", *last.load_imbalance);
  if (last.attention_imbalance)
    text[3] += fmt::format("   attention {:.1f} % uneven", 100 * *last.attention_imbalance);
  return text;
}

}  // namespace

std::string live_view(const RunRecord& run, int columns, bool color) {
  std::string text = fitted(printable(run.log.folder.string()), columns) + fitted(state_line(run), columns);
  if (run.log.steps.empty()) {
    text += fitted("no step yet", columns);
  } else {
    for (const std::string& line : step_lines(run, columns)) text += fitted(line, columns);
    if (const auto time = time_spent(run)) text += fitted(goodput_text(*time), columns);
    text += "\n" + plot_of("loss", run, columns, color);
  }
  const std::vector<TimedEvent> events = last_events(run, kEvents);
  if (!events.empty()) text += "\n";
  for (const auto& [time, sentence] : events)
    text += fitted((time.size() > 19 ? time.substr(11, 8) : time) + " " + sentence, columns);
  return text;
}

}  // namespace rondo

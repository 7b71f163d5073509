// Losses that are not finite are never the best. The last save is full, so a finished run can be
// extended.
#include "trainer/observe/start_and_end.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/derived/paths.h"
#include "datasets/tokenizer/document_ends.h"
#include "support/printable.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

std::string plural(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : "s");
}

// Returns the epochs of the source that is repeated most often.
double epochs(const DataSummary& data, double steps) {
  double most = 0;
  for (const DataSummary::Source& source : data.sources)
    most = std::max(most, steps / source.steps_per_epoch);
  return most;
}

std::string documents_text(const JobConfig& config, const DataSummary& data) {
  return fmt::format(
      "{}{}", fmt::join(data.ends, " and "),
      data.spelled ? "; " + shown(config.training.special_tokens, *data.spelled) : std::string());
}

std::string held_out_line(const JobConfig& config, const DataSummary& training,
                          const DataSummary& validation) {
  const double share =
      static_cast<double>(validation.tokens) / static_cast<double>(training.tokens + validation.tokens);
  const double requested = config.validation.holdout_fraction;
  std::string line =
      fmt::format("held out for validation: {} of {}, {} tokens, {:.1f} % of all", validation.documents,
                  plural(training.documents + validation.documents, "document"),
                  count_text(validation.tokens), 100 * share);
  if (share > 2 * requested || share < requested / 2)
    line += fmt::format(
        ", but validation.holdout_fraction is {:g} %: documents are held out whole, and these are few and "
        "uneven. Set validation.dataset_path to use other documents",
        100 * requested);
  return line;
}

std::string loss_text(const BestLoss& loss) {
  const std::string end = fmt::format("{:.4f} at the end", loss.last);
  return std::isnan(loss.best) ? end
                               : fmt::format("{}, {:.4f} at best (step {})", end, loss.best, loss.best_step);
}

std::vector<std::string> losses_lines(const StepSeries& steps) {
  std::vector<std::string> lines = {"loss: " + loss_text(steps.loss())};
  if (!steps.validations().empty()) lines.push_back("validation loss: " + loss_text(steps.validation_loss()));
  return lines;
}

// Returns how to continue training after this run, if that is possible, and what it does to the
// learning rate.
std::string longer_line(const JobConfig& config, const RunEnd& end) {
  if (!end.finished) return "";
  if (end.last_saved_step != end.step) return "";
  JobConfig longer = config;
  longer.training.steps *= 2;
  const auto rate = [](const JobConfig& settings, std::int64_t step) {
    return fmt::format("{:.4g}", learning_rate(settings, step));
  };
  const std::string last = rate(config, std::max<std::int64_t>(0, end.schedule_step - 1)),
                    next = rate(longer, end.schedule_step);
  return fmt::format("next: the same command with --training.steps={} trains on; its learning rate {}",
                     longer.training.steps,
                     next == last ? "stays " + last
                                  : fmt::format("goes from {} at step {} to {} at step {}", last, end.step,
                                                next, end.step + 1));
}

bool is_other_rate(float a, float b) { return std::abs(a - b) > 1e-6F * std::max(a, b); }

}  // namespace

std::vector<std::string> data_lines(const JobConfig& config, const DataSummary& training,
                                    const DataSummary* validation, const RunTokens& tokens) {
  std::vector<std::string> lines = {
      fmt::format("data: {} with {} tokens in {}; this run takes {} tokens, {:.2g} epochs",
                  plural(training.documents, "document"), count_text(training.tokens), training_path(config),
                  count_text(tokens.whole),
                  epochs(training, static_cast<double>(tokens.whole) / static_cast<double>(tokens.step)))};
  if (!training.ends.empty())
    lines.push_back(fmt::format("tokenizer: {}; documents: {}", tokenizer_name(config),
                                documents_text(config, training)));
  if (validation == nullptr) return lines;
  if (validation->ends != training.ends)
    lines.push_back("documents of validation: " + documents_text(config, *validation));
  if (validation_path(config).empty())
    lines.push_back(held_out_line(config, training, *validation));
  else
    lines.push_back(fmt::format("validation data: {} with {} tokens in {}",
                                plural(validation->documents, "document"), count_text(validation->tokens),
                                validation_path(config)));
  return lines;
}

std::string run_folder_line(const Checkpoint& checkpoint, const std::string& path) {
  return fmt::format("run folder: {}; {}", path,
                     !checkpoint.enable ? "nothing is saved (checkpoint.enable)"
                     : checkpoint.load_only
                         ? "nothing is saved (checkpoint.load_only)"
                         : fmt::format("a checkpoint every {} steps", checkpoint.interval));
}

std::string peak_line(const JobConfig& config, std::optional<double> peak_flops, const std::string& gpu) {
  if (peak_flops)
    return fmt::format(
        "peak: {:g} TFLOP/s a rank for mfu, {}", *peak_flops * 1e-12,
        config.metrics.peak_tflops > 0 ? "by metrics.peak_tflops" : "the maker's figure for dense bf16");
  if (gpu.empty()) return "";
  return fmt::format(
      "peak: \"{}\" is not in the table of GPUs, so mfu is not reported; set metrics.peak_tflops", gpu);
}

std::string learning_rate_line(const JobConfig& config, const ScheduleStart& start) {
  const std::int64_t last = config.training.steps;
  std::string text = "learning rate:";
  const auto add = [&](float rate, std::int64_t step) {
    text += fmt::format("{} {:.4g} at step {}", text.ends_with(':') ? "" : ",", rate, step);
  };
  const auto rate_of = [&](std::int64_t step) {
    return learning_rate(config, start.schedule_step + step - start.step - 1);
  };
  std::int64_t next = start.step + 1;
  if (start.saved && start.step > 0) add(start.saved->last, start.step);
  if (next <= last) add(rate_of(next), next);
  if (!start.saved && ++next <= last) add(rate_of(next), next);
  if (next < last) add(rate_of(last), last);
  return text;
}

std::vector<std::string> learning_rate_warnings(const JobConfig& config, const ScheduleStart& start) {
  std::vector<std::string> warnings;
  const std::int64_t next = start.step + 1, last = config.training.steps;
  if (next > last) return warnings;
  const float rate = learning_rate(config, start.schedule_step);
  if (start.saved && is_other_rate(start.saved->next, rate))
    warnings.push_back(
        fmt::format("the learning rate of step {}: {:.4g} by the settings and the schedule of "
                    "the checkpoint, {:.4g} now",
                    next, start.saved->next, rate));
  const std::int64_t last_of_schedule = start.schedule_step + last - next;
  if (const auto zero = first_without_rate(config, start.schedule_step, last_of_schedule))
    warnings.push_back(fmt::format(
        "the learning rate is 0 from step {} to the last one, {}{}", next + *zero - start.schedule_step, last,
        static_cast<float>(config.optimizer.lr) == 0
            ? fmt::format(": optimizer.lr = {}{}", config.optimizer.lr,
                          config.optimizer.lr == 0 ? "" : " is 0 in float32")
            : "; raise lr_scheduler.total_steps, lower training.steps, or set lr_scheduler.min_lr_factor"));
  return warnings;
}

std::vector<std::string> end_lines(const JobConfig& config, const RunEnd& end, const RunLog& log) {
  const std::string folder = config.job.dump_folder, word = shell_word(folder);
  std::vector<std::string> lines = {
      fmt::format("{} after step {} of {}, {} tokens; it took {}, of these {} for validation and saving",
                  end.finished ? "done" : "stopped", end.step, config.training.steps,
                  count_text(end.tokens_seen), format_duration(end.seconds), format_duration(end.paused_s))};
  if (!log.steps.empty())
    for (std::string& line : losses_lines(log.steps)) lines.push_back(std::move(line));
  lines.push_back("run folder: " + folder);
  if (end.last_saved_step >= 0)
    lines.push_back(fmt::format("checkpoints: {}, the last of step {}", checkpoint_root(config).string(),
                                end.last_saved_step));
  if (std::string line = longer_line(config, end); !line.empty()) lines.push_back(std::move(line));
  if (end.last_saved_step >= 0)
    lines.push_back(fmt::format("next: rondo convert {} DIR writes the weights for Hugging Face", word));
  lines.push_back(fmt::format("next: rondo report {} draws the curves", word));
  return lines;
}

}  // namespace rondo

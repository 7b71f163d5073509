// Checks each step's numbers and, at the configured steps, the state. The messages name the step
// whose state is intact, since the update of a failed step is skipped on the device. An update in
// the backward is not skipped.
#include "trainer/run/guards.h"

#include <fmt/format.h>

#include <cmath>

#include "support/error.h"
#include "support/log.h"
#include "trainer/run/compare_replicas.h"

namespace rondo {
namespace {

// Returns what to change. Some settings make a finite step impossible.
std::string remedy(const Optimizer& optimizer) {
  if (static_cast<float>(optimizer.eps) == 0)
    return fmt::format("optimizer.eps = {} is 0 in float32, so a moment of 0 gives 0 / 0: raise it",
                       optimizer.eps);
  if (optimizer.lr * optimizer.weight_decay > 1)
    return fmt::format(
        "optimizer.lr * optimizer.weight_decay = {} * {} is above 1, so a step of decay overshoots 0: "
        "lower optimizer.weight_decay",
        optimizer.lr, optimizer.weight_decay);
  return "Lower optimizer.lr or training.max_norm, or inspect the batch";
}

bool is_due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }

}  // namespace

void Guards::check(const StepResult& result, std::int64_t step) {
  if (!result.finite) refuse(result, step);
  count_skipped(result, step);
}

void Guards::refuse(const StepResult& result, std::int64_t step) const {
  const bool loss_is_fine = std::isfinite(result.loss);
  const double value = loss_is_fine ? result.grad_norm : result.loss;
  const std::string state =
      run_.config.optimizer.early_step_in_backward
          ? "optimizer.early_step_in_backward has changed parameters and optimizer state; resume from a "
            "checkpoint"
          : fmt::format("parameters and optimizer state are as after step {}", step - 1);
  throw Error(ExitCode::numerics,
              fmt::format("step {}: {} is not finite ({}); {}. {}", step, loss_is_fine ? "grad_norm" : "loss",
                          std::isnan(value) ? "nan" : "inf", state, remedy(run_.config.optimizer)));
}

void Guards::count_skipped(const StepResult& result, std::int64_t step) {
  skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
  if (!result.skipped) return;
  const std::string message = fmt::format(
      "step {}: {:.0f} rows of tokens did not fit on the ranks of their experts; the step is "
      "skipped",
      step, result.dropped_tokens);
  if (run_.environment.rank == 0) log_warning(message);
  if (skipped_in_a_row_ < kMaxSkipped) return;
  throw Error(
      ExitCode::numerics,
      fmt::format("{}, as were the {} before it; parameters and optimizer state are as after step {}. Raise "
                  "parallelism.expert_capacity_factor = {}, set it to 0 (room for every row), or set "
                  "parallelism.expert_overflow = \"drop\"",
                  message, kMaxSkipped - 1, step - kMaxSkipped,
                  run_.config.parallelism.expert_capacity_factor));
}

bool Guards::inspects(std::int64_t step) const {
  const Debug& d = run_.config.debug;
  return is_due(d.hash_every, step) || is_due(d.check_replicas_every, step);
}

std::optional<std::string> Guards::inspect(std::int64_t step) {
  if (!inspects(step)) return std::nullopt;
  refuse_drift();
  if (is_due(run_.config.debug.check_replicas_every, step)) stragglers_.look(*run_.groups, step);
  if (!is_due(run_.config.debug.hash_every, step)) return std::nullopt;
  return run_.state->hash(*run_.groups);
}

void Guards::refuse_drift() {
  if (compared_at_ == run_.progress.step) return;
  compared_at_ = run_.progress.step;
  const auto drift = find_drift(run_.state->parts(), run_.layout.mesh, *run_.groups);
  if (!drift) return;
  throw Error(
      ExitCode::numerics,
      run_.steps_read == 0
          ? fmt::format("the initial state of this run differs between ranks: {}. Check that all nodes "
                        "have the same checkpoint.initial_load_path",
                        *drift)
          : fmt::format("step {}: ranks that should hold the same state have drifted apart: {}. "
                        "Restart from the last checkpoint (the same command does); if it happens "
                        "again, test the memory and the GPUs of these machines",
                        run_.progress.step, *drift));
}

}  // namespace rondo

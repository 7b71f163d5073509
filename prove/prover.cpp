// Keeps one pool with the ranks of the largest layout, so that LibTorch is loaded once for all
// proofs. A run folder is removed when its proof holds.
#include "prove/prover.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "config/load.h"
#include "models/parts/model_spec.h"
#include "prove/proof_job.h"
#include "support/error.h"
#include "support/flags/flag_values.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kPatience{300};  // for hangs; far longer than a run

// Returns why a run failed, from its output: the text after the first "error", or the last line.
std::string reason_in(const std::string& output) {
  constexpr std::string_view kError = "error";
  std::string reason;
  for (const std::string& line : split(output, '\n')) {
    if (const std::size_t at = line.find(kError); at != line.npos) {
      const std::size_t begin = line.find_first_not_of(" :", at + kError.size());
      return begin == line.npos ? line : line.substr(begin);
    }
    if (!line.empty()) reason = line;
  }
  return reason;
}

}  // namespace

Prover::Prover(JobConfig job, std::filesystem::path folder, std::string worker, std::int64_t max_ranks)
    : job_(std::move(job)),
      folder_(std::move(folder)),
      worker_(std::move(worker)),
      max_ranks_(static_cast<int>(max_ranks)),
      config_file_(write_proof_job(job_, folder_).string()) {}

int exit_code_of(const std::vector<Proof>& proofs) {
  int code = 0;
  for (const Proof& proof : proofs) {
    if (proof.ran() && !proof.holds()) return static_cast<int>(ExitCode::numerics);
    const bool is_refusal = code == static_cast<int>(ExitCode::config);
    if (code == 0 || (is_refusal && !proof.ran())) code = proof.end.code;
  }
  return code;
}

RunEnd Prover::play(std::int64_t ranks, const std::filesystem::path& run, std::vector<std::string> flags) {
  if (!pool_) pool_.emplace(worker_, max_ranks_);
  flags.insert(flags.begin(), {config_file_, "--job.dump_folder=" + run.string()});
  const launch::PlayedRun played = pool_->play(static_cast<int>(ranks), flags, kPatience);
  if (!played.timed_out && played.exit_code == 0) return {};
  pool_.reset();
  const std::string reason = reason_in(played.output);
  if (!played.timed_out) return {played.exit_code, reason};
  return {static_cast<int>(ExitCode::peer),
          fmt::format("the run hangs: not done after {} s; {}", kPatience.count(), reason)};
}

RunEnd Prover::play_case(const ProofCase& layout, const std::filesystem::path& run) {
  const std::size_t parts = layout.layouts.size();
  for (std::size_t i = 0; i < parts; ++i) {
    const ProofLayout& part = layout.layouts[i];
    std::vector<std::string> flags = part.flags(layout.global_batch());
    if (i + 1 < parts) flags.push_back(fmt::format("--training.steps={}", kProofSteps - 1));
    if (RunEnd end = play(part.ranks(), run, flags); end.code != 0) return end;
  }
  return {};
}

const Prover::OneRank& Prover::one_rank(const ProofCase& layout) {
  std::vector<std::string> flags =
      ProofLayout{.settings = layout.common_settings()}.flags(layout.global_batch());
  flags.insert(flags.end(), {"--compile.enable=false", "--compile.memory_policy=auto",
                             "--compile.numerics=exact", "--activation_checkpoint.mode=none"});
  std::string key;
  for (const std::string& flag : flags) key += flag + " ";
  const auto [at, is_new] =
      one_rank_.try_emplace(key, OneRank{folder_ / fmt::format("one-{}", one_rank_.size()), {}});
  if (!is_new) return at->second;
  RunEnd& end = at->second.end;
  end = play(1, at->second.run, flags);
  if (end.code != 0 && end.code != static_cast<int>(ExitCode::config))
    throw Error(ExitCode::internal,
                fmt::format("the run of one rank that layouts are compared with ends with exit code {}: {}",
                            end.code, end.reason));
  return at->second;
}

Compared Prover::compared_with(const ProofCase& layout) const {
  Compared compared;
  // The keys of the layout may change the model: tied weights, dense or shared experts.
  std::vector<std::string> words = {config_file_};
  for (const std::string& setting : layout.common_settings()) words.push_back("--" + setting);
  const JobConfig job = load_config(words, TargetDevice::cpu);
  for (const ParameterRule& rule : find_model_spec(job.model.name)->parameters(job.model.sizes))
    compared.parameters.push_back(rule.name);
  compared.beta1 = job.optimizer.beta1;
  compared.muon_momentum = job.optimizer.muon_momentum;
  compared.max_norm = job.training.max_norm;
  const ProofLayout& first = layout.layouts[0];
  compared.axes = first.degrees();
  if (first.microbatches > 1) compared.axes.emplace_back("microbatches", first.microbatches);
  const auto add_product = [&](const char* name, std::int64_t degree) {
    for (const auto& [other, other_degree] : compared.axes)
      if (other_degree == degree) return;
    if (degree > 1) compared.axes.emplace_back(name, degree);
  };
  add_product("dp", first.data());
  add_product("all ranks", first.ranks());
  return compared;
}

Proof Prover::prove(const ProofCase& layout) {
  const OneRank& one = one_rank(layout);
  const Stopwatch time;
  const std::filesystem::path run = folder_ / fmt::format("run-{}", runs_++);
  Proof proof{layout, {}, one.end.code == 0 ? play_case(layout, run) : one.end};
  if (proof.ran()) proof.differences = differences(one.run, run, compared_with(layout));
  proof.seconds = time.seconds();
  if (proof.holds()) std::filesystem::remove_all(run);
  return proof;
}

}  // namespace rondo

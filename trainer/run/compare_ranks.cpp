// Compares texts of settings and collectives between ranks. Each node may have its own copy of the
// data and of other files, so paths are not compared. ProcessGroups::first_other_text finds the
// first rank with another text; the functions here describe the difference.
#include "trainer/run/compare_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <sstream>

#include "config/dump.h"
#include "config/setting_changes.h"
#include "support/error.h"
#include "support/machine/machine.h"

namespace rondo {
namespace {

// Paths are not compared, since every node may have its own copy. The data's fingerprint is.
constexpr std::array<std::string_view, 10> kPaths = {
    "training.dataset_path",        "training.datasets",       "training.tokenizer",
    "training.token_cache",         "validation.dataset_path", "model.hf_assets_path",
    "checkpoint.initial_load_path", "metrics.prometheus_file", "parallelism.pipeline_parallel_schedule_csv",
    "compile.matmul_algorithms"};
constexpr std::size_t kShown = 5;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<std::string> settings_to_compare(const JobConfig& config, const std::vector<std::string>& more) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : settings_of(config))
    if (!key.starts_with("job.") && std::find(kPaths.begin(), kPaths.end(), key) == kPaths.end())
      settings.push_back(key + " = " + value);
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::string describe_settings(const std::string& rank_0, const std::string& other, int rank) {
  std::vector<std::string> differing;
  for (const SettingChange& change : changed_settings(lines_of(rank_0), lines_of(other)))
    differing.push_back(
        fmt::format("{} is {} on rank 0 and {} on rank {}", change.key, change.before, change.now, rank));
  const std::size_t rest = differing.size() - std::min(differing.size(), kShown);
  differing.resize(differing.size() - rest);
  return fmt::format(
      "ranks were started with different settings: {}{}. Start all ranks with the same "
      "configuration, data and program",
      fmt::join(differing, "; "), rest > 0 ? fmt::format("; and {} more", rest) : "");
}

std::string describe_collectives(const std::string& text_of_first, const std::string& other, int first,
                                 int rank) {
  const std::vector<std::string> a = lines_of(text_of_first), b = lines_of(other);
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  // A rank without further collectives in a function is at the name of its next function.
  const auto name_ends = [](const std::string& line) { return line.ends_with(':'); };
  const auto name = std::find_if(std::make_reverse_iterator(in_a), a.rend(), name_ends);
  const auto text_at = [&](auto line, auto end) { return line == end || name_ends(*line) ? "" : *line; };
  return fmt::format(
      "ranks {} and {} would call different collectives in {}; the first that differs: \"{}\" and \"{}\"",
      first, rank, name == a.rend() ? "a step" : name->substr(0, name->size() - 1), text_at(in_a, a.end()),
      text_at(in_b, b.end()));
}

void compare_finished(bool finished, const std::string& checkpoints, ProcessGroups& groups) {
  const std::vector<std::int64_t> all = groups.all_gather(finished ? 1 : 0);
  const auto odd = first_mismatch(all, /*block=*/0);
  if (!odd) return;
  const std::string here = fmt::format("rank {} on {} finds in {}", groups.rank(), host_name(), checkpoints);
  const std::string first = groups.broadcast_text("finished/first", here, odd->first);
  const std::string other = groups.broadcast_text("finished/other", here, odd->rank);
  const bool first_finished = all[static_cast<std::size_t>(odd->first)] != 0;
  throw Error(
      ExitCode::checkpoint,
      fmt::format("ranks do not agree whether a step is left: {} that all are done, and {} that they are "
                  "not. Mount the folder of the checkpoints on every host, at the same path",
                  first_finished ? first : other, first_finished ? other : first));
}

void compare_settings(const std::vector<std::string>& settings, ProcessGroups& groups) {
  if (const auto odd = groups.first_other_text("settings", fmt::format("{}", fmt::join(settings, "\n"))))
    throw Error(ExitCode::config, describe_settings(odd->text_of_first, odd->text, odd->rank));
}

void compare_collectives(const std::vector<const CompiledStep*>& steps, const Mesh& mesh,
                         ProcessGroups& groups) {
  std::string text;
  for (const CompiledStep* step : steps) text += step->function().name + ":\n" + step->collective_sequence();
  const auto ranks_of_stage = static_cast<int>(mesh.degree(kStageAxes));
  if (const auto odd = groups.first_other_text("collectives", text, ranks_of_stage))
    throw Error(ExitCode::graph, describe_collectives(odd->text_of_first, odd->text, odd->first, odd->rank));
}

// mpirun says no node numbers. Several nodes of a launcher may be on one machine, and are told
// apart.
std::int64_t node_of(const RankEnvironment& environment) {
  const bool is_numbered = environment.source == "slurm" || environment.source == "torchrun";
  const std::string node = fmt::format("{}/{}", host_name(), is_numbered ? environment.group_rank : 0);
  return static_cast<std::int64_t>(std::hash<std::string>{}(node));
}

std::string tensor_parallelism_across_nodes(const std::vector<std::int64_t>& nodes, const Mesh& mesh) {
  for (std::int64_t rank = 0; rank < mesh.world_size(); ++rank)
    for (const std::int64_t other : mesh.members(rank, Axis::tp))
      if (nodes[static_cast<std::size_t>(rank)] != nodes[static_cast<std::size_t>(other)])
        return fmt::format(
            "tensor parallelism crosses nodes: ranks {} and {} of one group are on different nodes, so each "
            "layer waits for the network; place consecutive ranks on a node (srun --distribution=block), or "
            "lower parallelism.tensor_parallel_degree = {}",
            std::min(rank, other), std::max(rank, other), mesh.degree(Axis::tp));
  return "";
}

}  // namespace rondo

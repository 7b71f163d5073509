#include "tests/trainer/mutants/played.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>

#include "config/load.h"
#include "launch/rank_pool.h"
#include "prove/proof_job.h"
#include "prove/proof_layout.h"
#include "support/flags/flag_values.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {

const std::vector<MutantJob>& mutant_jobs() {
  static const std::vector<MutantJob> jobs = {
      {"llama tp", "llama3_debug", "dp_shard=2,tp=2"},
      {"llama hsdp", "llama3_debug",
       "dp_replicate=2,dp_shard=2,accumulate=2,training.document_attention=true"},
      {"context", "llama3_debug", "dp_shard=2,cp=2,training.document_attention=true"},
      {"heads", "llama3_debug", "dp_shard=2,cp=2,parallelism.context_parallel_rotate_method=alltoall"},
      {"experts", "deepseek_v3_debug", "dp_shard=2,tp=2,ep=4"},
      {"few experts", "deepseek_v3_debug",
       "dp_shard=4,ep=2,parallelism.expert_parallel_comm_backend=standard"},
      {"pipeline", "llama3_debug",
       "pp=2,dp_shard=2,accumulate=4,parallelism.pipeline_parallel_schedule=InterleavedZeroBubble"},
  };
  return jobs;
}

Verdicts played(int sample, int seed) {
  Verdicts verdicts;
  std::optional<launch::RankPool> pool;
  for (const MutantJob& job : mutant_jobs()) {
    const Scratch scratch;
    const JobConfig config = proof_job(
        load_config({"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + std::string(job.model) + ".toml"}));
    ProofCase layout;
    REQUIRE(read_case(std::string(job.layout), layout).empty());
    std::vector<std::string> flags = {std::string(job.name), std::to_string(sample), std::to_string(seed),
                                      write_proof_job(config, scratch.root()).string()};
    for (const std::string& flag : layout.layouts[0].flags(layout.global_batch())) flags.push_back(flag);
    const int ranks = static_cast<int>(layout.ranks());
    if (!pool) pool.emplace(RONDO_BINARY_DIR "/tests/mutant_ranks", ranks);
    const launch::PlayedRun run = pool->play(ranks, flags, std::chrono::seconds(1200));
    INFO(job.name << ": " << run.output);
    REQUIRE(run.exit_code == 0);
    REQUIRE_FALSE(run.timed_out);
    for (const std::string& line : split(run.output, '\n'))
      if (const std::vector<std::string> words = split(line, '\t'); words.size() == 3)
        verdicts[words[0]].push_back({std::string(job.name), words[1], words[2]});
  }
  return verdicts;
}

}  // namespace rondo

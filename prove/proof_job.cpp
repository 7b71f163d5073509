// Documents are from a few bytes to many sequences long, so that borders are anywhere in a
// sequence. With document attention, rows of a batch then have different numbers of labels.
#include "prove/proof_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/dump.h"
#include "models/parts/model_spec.h"
#include "support/files/atomic_file.h"

namespace rondo {
namespace {

constexpr std::int64_t kSeqLen = 48;  // tokens; divides into two parts for 2, 3, 4, 6 and 8 ranks
constexpr double kMaxNorm = 0.05;     // below the gradient norm of any first step
constexpr const char* kCorpus = "corpus";

std::string document(std::uint32_t& state, int index) {
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  std::string text;
  const std::size_t length = 4 + random(index % 3 == 0 ? 20 : 400);
  while (text.size() < length) text += static_cast<char>(random(9) == 0 ? ' ' : 'a' + random(26));
  return text;
}

}  // namespace

JobConfig proof_job(const JobConfig& job) {
  JobConfig c = job;
  c.origins.clear();
  c.notes.clear();
  c.job = {};
  c.job.device = TargetDevice::cpu;
  c.model.sizes = find_model_spec(job.model.name)->small(job.model.sizes);
  c.model.hf_assets_path.clear();
  c.model.converters.clear();
  c.lr_scheduler.warmup_steps = 0;
  c.lr_scheduler.total_steps = kProofSteps;
  c.optimizer.early_step_in_backward = false;  // every step clips
  c.training = {};
  c.training.document_attention = job.training.document_attention;
  c.training.shuffle = job.training.shuffle;
  c.training.tokenizer = "bytes";
  c.training.seq_len = kSeqLen;
  c.training.steps = kProofSteps;
  c.training.max_norm = std::min(job.training.max_norm, kMaxNorm);
  c.training.dtype = Precision::float64;
  c.training.num_prefetch_batches = 0;
  Parallelism& p = c.parallelism;
  for (const DegreeOfAxis& of : kDegrees) p.*of.degree = 1;
  p.expert_overflow = ExpertOverflow::repeat;
  p.enable_async_tensor_parallel = false;  // one rank refuses it; layouts set it
  c.compile.tensor_parallel_pieces = 0;
  c.compile.dump = GraphDump::none;
  c.compile.memory_budget_gib = 0;
  c.compile.fsdp_buckets.clear();  // they may name layers that the small model lacks
  c.checkpoint = {};
  c.checkpoint.enable = c.checkpoint.enable_first_step_checkpoint = true;
  c.checkpoint.interval = 1'000'000;
  c.checkpoint.keep_latest_k = 0;
  c.metrics = {};
  c.metrics.verbosity = Verbosity::quiet;
  c.metrics.log_freq = 1;
  c.profiling = {};
  c.validation = {};
  c.debug.hash_every = 0;
  c.debug.check_replicas_every = 1;
  return c;
}

std::filesystem::path write_proof_job(const JobConfig& proof_job, const std::filesystem::path& folder) {
  JobConfig written = proof_job;
  written.training.dataset_path = (folder / kCorpus).string();
  std::filesystem::create_directories(folder / kCorpus);
  std::uint32_t state = 1;
  for (int i = 0; i < 60; ++i)
    replace_file(folder / kCorpus / fmt::format("{:02}.txt", i), document(state, i), FileUse::run);
  replace_file(folder / "proof.toml", to_toml(written), FileUse::run);
  return folder / "proof.toml";
}

}  // namespace rondo

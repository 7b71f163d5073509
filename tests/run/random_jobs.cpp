// Draws degrees first and sizes from them, so that few draws are refused. Heads are a small
// multiple of the ranks that share them, most often 1.
#include "tests/run/random_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <numeric>
#include <random>

#include "tests/run/ladder.h"

namespace rondo {
namespace {

struct DrawnModel {
  const char* config;
  bool has_latents, has_experts, has_dense_width;
};
constexpr DrawnModel kDrawnModels[] = {{"llama3", false, false, true},    {"qwen3", false, false, true},
                                       {"olmo2", false, false, true},     {"qwen3_moe", false, true, false},
                                       {"gpt_oss", false, true, false},   {"llama4", false, true, true},
                                       {"deepseek_v3", true, true, true}, {"kimi_k2", true, true, true}};

class Draw {
 public:
  Draw(std::uint64_t seed, int most_ranks) : random_(seed), most_ranks_(most_ranks) {}

  RandomJob job() {
    model_ = kDrawnModels[below(std::size(kDrawnModels))];
    is_float8_ = one_in(8);
    layout();
    sizes();
    batch();
    ways();
    job_.config = fmt::format(RONDO_SOURCE_DIR "/configs/{}_debug.toml", model_.config);
    job_.ranks = static_cast<int>(pipeline_ * replicate_ * shard_ * context_ * tensor_);
    return std::move(job_);
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <class T>
  void set(const std::string& key, const T& value) {
    job_.flags.push_back(fmt::format("--{}={}", key, value));
  }

  void layout() {
    do {
      pipeline_ = one_of({1, 1, 1, 2, 3});
      replicate_ = one_of({1, 1, 1, 2});
      shard_ = one_of({1, 1, 2, 2, 3});
      context_ = one_of({1, 1, 2, 3, 4});
      tensor_ = one_of({1, 1, 2, 3, 4, 8});
    } while (pipeline_ * replicate_ * shard_ * context_ * tensor_ > most_ranks_);
    set("parallelism.pipeline_parallel_degree", pipeline_);
    set("parallelism.data_parallel_replicate_degree", replicate_);
    set("parallelism.data_parallel_shard_degree", shard_);
    set("parallelism.context_parallel_degree", context_);
    set("parallelism.tensor_parallel_degree", tensor_);
    exchanges_heads_ = context_ > 1 && !model_.has_latents && one_in(2);
    if (exchanges_heads_) set("parallelism.context_parallel_rotate_method", "alltoall");
    if (context_ > 1 && !exchanges_heads_)
      set("parallelism.context_parallel_load_balancer", one_of({"headtail", "none"}));
    if (!model_.has_experts) return;
    const bool shares_each = tensor_ > 1 && one_in(3);
    const int ranks = shard_ * context_ * (shares_each ? 1 : tensor_);
    do experts_ = 1 + static_cast<int>(below(static_cast<std::size_t>(ranks)));
    while (ranks % experts_ != 0);
    set("parallelism.expert_parallel_degree", experts_);
    if (shares_each) set("parallelism.expert_tensor_parallel_degree", tensor_);
    if (experts_ > 1) {
      const bool by_counts = one_in(2);
      set("parallelism.expert_parallel_comm_backend", by_counts ? "standard" : "static");
      if (!by_counts && one_in(2)) set("parallelism.expert_parallel_combine", "alltoall");
      const double room = one_of({0.0, 0.0, 1.0, 1.5});
      set("parallelism.expert_capacity_factor", room);
      if (room > 0) set("parallelism.expert_overflow", one_of({"repeat", "skip", "drop"}));
    }
  }

  void sizes() {
    const int head_ranks = exchanges_heads_ ? tensor_ * context_ : tensor_;
    const int groups = tensor_ * (exchanges_heads_ ? one_of({1, context_}) : one_of({1, 1, 2})),
              heads = std::lcm(groups, head_ranks) * one_of({1, 1, 2});
    set("model.n_heads", heads);
    if (model_.has_latents) {
      set("model.qk_nope_head_dim", one_of({2, 5}));
      set("model.qk_rope_head_dim", one_of({2, 4}));
      set("model.v_head_dim", one_of({3, 6}));
      set("model.kv_lora_rank", one_of({4, 7}));
      set("model.q_lora_rank", one_of({0, 5}));
    } else {
      set("model.n_kv_heads", groups);
      set("model.head_dim", is_float8_ ? 16 : one_of({4, 6, 8}));
    }
    set("model.dim", is_float8_ ? 32 : one_of({16, 24, 33}));
    layers_ = pipeline_ == 1 ? one_of({1, 2, 3}) : pipeline_ * one_of({2, 3});
    set("model.n_layers", layers_);
    set("model.vocab_size", one_of({258, 259, 264}));
    if (!model_.has_latents) set("model.tie_embeddings", pipeline_ == 1 && one_in(4));
    if (model_.has_dense_width) set("model.ffn_hidden_dim", tensor_ * (is_float8_ ? 16 : one_of({1, 2, 5})));
    if (!model_.has_experts) return;
    const int experts = experts_ * one_of({1, 1, 2, 3});
    set("model.n_experts", experts);
    set("model.top_k", one_in(2) ? 1 : std::min(experts, 2));
    set("model.moe_hidden_dim", tensor_ * (is_float8_ ? 16 : one_of({1, 3})));
    if (model_.has_latents) {
      set("model.n_expert_groups", 1);
      set("model.n_limited_groups", 1);
      set("model.n_dense_layers", one_of({0, 1}));
      set("model.n_shared_experts", one_of({0, 1}));
    }
  }

  void batch() {
    const int rows = one_of({1, 1, 2}), microbatches = pipeline_ > 1 ? 2 * pipeline_ : one_of({1, 1, 2, 3});
    const bool overlaps = pipeline_ == 1 && microbatches > 1 && one_in(2);
    has_accumulation_ = microbatches > 1;
    set("training.seq_len", 2 * context_ * tensor_ * one_of({1, 2}));
    set("training.local_batch_size", rows * (pipeline_ > 1 || overlaps ? microbatches : 1));
    if (overlaps) set("parallelism.overlapped_microbatches", microbatches);
    if (pipeline_ > 1) {
      set("parallelism.pipeline_parallel_microbatch_size", rows);
      set("parallelism.pipeline_parallel_schedule",
          one_of(
              {"1F1B", "GPipe", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}));
    } else {
      set("training.global_batch_size", rows * microbatches * replicate_ * shard_);
    }
    if (microbatches > 1 && one_in(3)) set("parallelism.fsdp_gradient_sync", "step");
    set("training.document_attention", one_in(3));
    if (one_in(2)) {
      set("validation.freq", 1);
      set("validation.steps", 1);
      set("validation.local_batch_size", 1);
      set("validation.seq_len", 2 * context_ * tensor_);
    } else {
      set("validation.enable", false);
    }
  }

  void ways() {
    set("training.mixed_precision_param", one_of({"float32", "float32", "bfloat16"}));
    set("parallelism.fsdp_reshard_after_forward", one_of({"default", "always", "never"}));
    set("debug.seed", below(1000));
    set("training.dtype", one_of({"float32", "float32", "float32", "bfloat16"}));
    if (one_in(4)) set("optimizer.parameter_groups", "*norm*: weight_decay=0 lr_factor=0.5");
    job_.is_eager = one_in(8);
    if (job_.is_eager) {
      set("compile.enable", false);
      set("activation_checkpoint.mode", one_of({"none", "selective", "full"}));
      return;
    }
    set("compile.memory_policy", pipeline_ == 1 && one_in(6)
                                     ? "sac_and_offload"
                                     : one_of({"none", "default", "eager", "full", "min_cut"}));
    if (one_in(4)) set("compile.enable_fsdp_ag_rs_overlap", true);
    if (tensor_ > 1 && one_in(3)) {
      job_.graph_flags.emplace_back("--parallelism.enable_async_tensor_parallel=true");
      job_.graph_flags.emplace_back("--compile.tensor_parallel_pieces=2");
    }
    if (pipeline_ == 1 && !has_accumulation_ && one_in(3)) {
      set("training.max_norm", "inf");
      job_.graph_flags.emplace_back("--optimizer.early_step_in_backward=true");
    }
    if (one_in(6)) set("compile.passes", "canonicalize");
    job_.rounds = one_in(4);
    if (job_.rounds) {
      set("compile.numerics", "rounds");
      if (one_in(2)) set("compile.loss_chunks", 2);
    }
    if (is_float8_) {
      const bool of_experts = model_.has_experts && one_in(2);
      set("model.converters", of_experts ? "float8,quantize.grouped_mm.float8" : "float8");
      set("quantize.linear.float8.emulate", true);
      set("quantize.linear.float8.recipe_name", one_of({"tensorwise", "rowwise"}));
      if (!of_experts) return;
      set("quantize.grouped_mm.float8.fqns", "experts");
      set("quantize.grouped_mm.float8.emulate", true);
    }
  }

  std::mt19937_64 random_;
  const int most_ranks_;
  RandomJob job_;
  DrawnModel model_{};
  int pipeline_ = 1, replicate_ = 1, shard_ = 1, context_ = 1, tensor_ = 1, experts_ = 1, layers_ = 1;
  bool exchanges_heads_ = false, is_float8_ = false, has_accumulation_ = false;
};

// Returns the error in the output of a command, without the words before it.
std::string reason_of(const std::string& output) {
  const std::size_t at = output.find("error: ");
  return at == output.npos ? output : output.substr(at);
}

}  // namespace

std::string RandomJob::text() const {
  return fmt::format("rondo launch --nproc-per-node {} -- train {} {}", ranks, config,
                     fmt::join(flags + graph_flags, " "));
}

RandomJob random_job(std::uint64_t seed, int most_ranks) { return Draw(seed, most_ranks).job(); }

std::string check_agrees_with_plan(const RandomJob& job) {
  const std::string world = std::to_string(job.ranks);
  const Words flags = job.flags + job.graph_flags;
  const ProgramResult checked = rondo(Words{"config", "check", job.config, "--world", world} + flags);
  const ProgramResult planned =
      rondo(Words{"plan", job.config, "--world", world, "--device", "cpu", "--search-plans", "0"} + flags);
  INFO(job.text() << "\ncheck: " << checked.output << "\nplan: " << planned.output);
  CHECK(checked.exit_code == planned.exit_code);
  CHECK((checked.exit_code == 0 || checked.exit_code == 3));
  if (checked.exit_code != 0) CHECK(reason_of(checked.output) == reason_of(planned.output));
  return checked.exit_code == 0 ? "" : reason_of(checked.output);
}

void check_bits(const Place& place, const RandomJob& job) {
  const auto play = [&](const std::string& name, const Words& executor_flags) {
    const ProgramResult run =
        rondo::play(job.ranks, Words{job.config, "--training.dataset_path=" + (place / "corpus").string(),
                                     "--job.dump_folder=" + (place / name).string(), "--training.steps=2",
                                     "--debug.hash_every=1", "--metrics.log_freq=1", "--compile.dump=none"} +
                                   job.flags + executor_flags);
    INFO(job.text() << "\n" << name << ": " << run.output);
    CHECK(run.exit_code == 0);
    return run.exit_code == 0;
  };
  const auto compare = [&](const std::string& a, const std::string& b) {
    const ProgramResult compared = place.compare(a, b);
    INFO(job.text() << "\n" << a << " and " << b << ": " << compared.output);
    CHECK(compared.exit_code == 0);
  };
  const bool eager =
      (job.is_eager || !job.rounds) && play("eager", kEager + Words{"--compile.memory_policy=auto"});
  if (job.is_eager) return;
  if (!play("replay", kReplay + job.graph_flags)) return;
  if (play("interpreter", kInterpreter + job.graph_flags)) compare("interpreter", "replay");
  if (eager) compare("eager", "replay");
}

}  // namespace rondo

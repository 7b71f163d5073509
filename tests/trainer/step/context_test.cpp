// Tests context parallelism: each of n ranks that share a sequence saves an n-th for the backward,
// and every token gets the same bits as on one rank.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "config/derived/batch.h"
#include "datasets/loader.h"
#include "parallel/rank_context.h"
#include "tests/datasets/rows_of_bytes.h"
#include "tests/datasets/temp_folder.h"
#include "tests/parallel/rank_threads.h"
#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

using at::Tensor;
using Catch::Matchers::WithinRel;
using Flags = SmallJob::Flags;

Flags shared_by(std::int64_t ranks, const std::string& method, const std::string& balance = "headtail") {
  return {fmt::format("--parallelism.context_parallel_degree={}", ranks),
          "--parallelism.context_parallel_rotate_method=" + method,
          "--parallelism.context_parallel_load_balancer=" + balance};
}

Flags operator+(Flags left, const Flags& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// --- bytes saved for the backward ---

constexpr double kLayers = 2, kTokens = 1024, kWidth = 64, kBytes = 4;

// Bytes that a rank saves.
struct Saved {
  double total = 0;
  std::map<std::string, double> by_module = {};  // over both layers
};

Saved saved(const std::string& model, std::int64_t ranks, const std::string& method,
            const std::string& policy = "default") {
  Flags flags = {"--training.seq_len=1024", "--training.local_batch_size=1",
                 "--compile.memory_policy=" + policy};
  if (model == "llama3") flags.emplace_back("--model.n_kv_heads=4");  // one for each of four ranks
  const SmallJob job(model, ranks, flags + shared_by(ranks, method));
  const StepProgram compiled = job.compile(ExecutorKind::replay);
  const ir::MemoryReport& memory = compiled.at("train_step").report().memory;
  Saved saved{static_cast<double>(memory.saved_bytes)};
  for (const auto& module : memory.saved) saved.by_module[module.module] = static_cast<double>(module.bytes);
  return saved;
}

TEST_CASE("each of n ranks that gather keys saves an n-th for the backward") {
  const double alone = saved("llama3", 1, "allgather").total;
  for (const std::int64_t n : {2, 4})
    CHECK_THAT(saved("llama3", n, "allgather").total * static_cast<double>(n), WithinRel(alone, 0.01));
}

TEST_CASE("DeepSeek-V3 saves only keys and values whole, which each rank computes from all latents") {
  const std::string from_latents = "attention.wkv_b";
  const Saved alone = saved("deepseek_v3", 1, "allgather");
  const double whole = alone.by_module.at(from_latents);
  for (const std::int64_t n : {2, 4}) {
    const Saved part = saved("deepseek_v3", n, "allgather");
    CHECK(part.by_module.at(from_latents) == whole);
    CHECK_THAT((part.total - whole) * static_cast<double>(n), WithinRel(alone.total - whole, 0.01));
  }
}

TEST_CASE("each of n ranks that exchange heads saves an n-th, and the results for its tokens") {
  for (const std::string model : {"llama3", "deepseek_v3"}) {
    const double alone = saved(model, 1, "alltoall").total, two = saved(model, 2, "alltoall").total;
    CHECK(two * 2 > alone);
    CHECK(two * 2 < alone * 1.1);
    CHECK_THAT(saved(model, 4, "alltoall").total * 2, WithinRel(two, 0.001));
  }
}

TEST_CASE("without recomputation, gathered keys and values are saved whole") {
  const auto of_attention = [](std::int64_t n) {
    return saved("llama3", n, "allgather", "none").by_module.at("attention");
  };
  CHECK(2 * of_attention(4) - of_attention(2) == kLayers * kTokens * 2 * kWidth * kBytes);
}

// --- bits ---

constexpr std::int64_t kRowTokens = 160;  // more than a tile of keys

// Multiplies each token alone, since a library may choose the order of sums by the number of rows.
class TokenByToken final : public Weights {
 public:
  explicit TokenByToken(std::shared_ptr<const Weights> weights) : weights_(std::move(weights)) {}

  Tensor get(std::string_view leaf) const override { return weights_->get(leaf); }
  Tensor get_for_wide_gradient(std::string_view leaf) const override { return get(leaf); }
  std::vector<Tensor> leaves(std::string_view module) const override { return weights_->leaves(module); }
  Tensor linear(const Tensor& x) const override {
    std::vector<Tensor> rows;
    for (const Tensor& row : x.split(1)) rows.push_back(weights_->linear(row.clone()));
    return at::cat(rows);
  }
  bool quantizes() const override { return weights_->quantizes(); }
  Tensor grouped_linear(const Tensor& x, const Tensor& ends_E) const override {
    return grouped(x, ends_E, get("weight").transpose(1, 2));
  }
  Tensor grouped_mm(const Tensor& x, const Tensor& ends_E) const override {
    return grouped(x, ends_E, get("weight"));
  }

 private:
  static Tensor grouped(const Tensor& x, const Tensor& ends_E, const Tensor& weight_EKN) {
    Tensor y = at::zeros({x.size(0), weight_EKN.size(2)});
    std::int64_t row = 0;
    for (std::int64_t expert = 0; expert < ends_E.size(0); ++expert)
      for (; row < ends_E[expert].item<std::int64_t>(); ++row)
        y[row] = at::mm(x.narrow(0, row, 1).clone(), weight_EKN[expert])[0];
    return y;
  }

  std::shared_ptr<const Weights> weights_;
};

// Returns the logits [B, N, V] of a rank's tokens.
Tensor logits_of(const SmallJob& job, const ShardedParameters& parameters,
                 const ContextParallelOptions& context, const Batch& batch) {
  const c10::NoGradGuard no_gradients;
  const RankContext ranks{.weights = std::make_shared<TokenByToken>(sharded_weights(parameters, {})),
                          .context = context_parallel(context)};
  const auto tensor = [](const auto& numbers, at::ScalarType dtype) {
    return at::from_blob(const_cast<void*>(static_cast<const void*>(numbers.data())), {std::ssize(numbers)},
                         dtype)
        .clone();
  };
  const std::int64_t rows = job.options.local_batch_size;
  ForwardInputs inputs = ForwardInputs::of(tensor(batch.tokens, at::kLong).view({rows, -1}));
  inputs.positions_BT = tensor(batch.positions, at::kLong).view({rows, -1});
  inputs.document_borders_N = tensor(batch.cu_seqlens, at::kInt);
  if (job.options.divides_queries())
    inputs.query_positions_BT = tensor(batch.query_positions, at::kInt).view({rows, -1});
  if (job.options.divides_keys())
    inputs.key_positions_BS = tensor(batch.key_positions, at::kInt).view({rows, -1});
  for (const Buffer& buffer : job.decoder->buffers(job.options.seq_len))
    inputs.buffers.push_back(buffer.value.to(at::kFloat));
  for (const ExpertBias& bias : job.decoder->expert_biases())
    inputs.expert_biases.push_back(at::zeros({bias.experts}));
  return job.decoder->forward(ranks, inputs);
}

// Two rows of documents of many lengths.
DataOptions documents_in(const TempFolder& folder) {
  for (int file = 0; file < 12; ++file) {
    std::string text;
    for (int i = 0; i < 3 + 17 * file; ++i) text += static_cast<char>(' ' + (i * 31 + file * 7) % 90);
    folder.write(std::to_string(file), text);
  }
  DataOptions options;
  options.path = folder.path();
  options.seq_len = kRowTokens;
  options.local_batch = 2;
  options.num_prefetch_batches = 0;
  options.document_attention = true;
  return options;
}

Batch first_batch(const DataOptions& options) {
  return DataLoader(options, kTokenizer).next().microbatches[0];
}

struct SmallModel {
  std::string name;
  Flags sizes;
};

struct Way {
  std::string method, balance;
};
const std::vector<Way> kWays = {
    {"allgather", "none"}, {"allgather", "headtail"}, {"allgather", "documents"}, {"alltoall", "none"}};

TEST_CASE("each token has the same bits of logits as on one rank, for every division of its sequence") {
  const Flags heads = {"--model.n_kv_heads=2", "--model.head_dim=16", "--model.moe_hidden_dim=32"};
  const SmallModel model = GENERATE_REF(
      SmallModel{"llama3", {"--model.sliding_window=50"}}, SmallModel{"deepseek_v3", {}},
      SmallModel{"gpt_oss", heads},
      SmallModel{"llama4", heads + Flags{"--model.ffn_hidden_dim=80", "--model.attention_chunk=20"}});
  const Flags sizes = model.sizes + Flags{fmt::format("--training.seq_len={}", kRowTokens), kDocuments};
  const TempFolder folder;
  const DataOptions data = documents_in(folder);
  const SmallJob alone(model.name, 1, sizes);
  ShardedParameters parameters;
  for (const ParameterRule& rule : alone.decoder->parameters())
    parameters[rule.name] = {at::randn({element_count(rule)}) * 0.2, rule.sizes, {}};
  const Tensor whole_BSV = logits_of(alone, parameters, {}, first_batch(data));
  constexpr int kRanks = 4;
  for (const Way& way : kWays) {
    const SmallJob job(model.name, kRanks, sizes + shared_by(kRanks, way.method, way.balance));
    std::vector<int> equal(kRanks);
    on_ranks(kRanks, [&](std::int64_t rank, const AxisGroup& group) {
      DataOptions own = data;
      own.context = {rank, kRanks, context_balance(job.config.parallelism)};
      const Batch batch = first_batch(own);
      ContextParallelOptions context = job.options.sharding.context;
      context.group = group;
      const Tensor logits_BNV = logits_of(job, parameters, context, batch);
      const std::int64_t each = logits_BNV.size(1);
      std::vector<Tensor> expected;
      for (std::int64_t i = 0; i < std::ssize(batch.query_positions); ++i)
        expected.push_back(whole_BSV[i / each][batch.query_positions[static_cast<std::size_t>(i)]]);
      equal[static_cast<std::size_t>(rank)] = at::equal(logits_BNV, at::stack(expected).view_as(logits_BNV));
    });
    INFO(model.name << ", " << way.method << ", " << way.balance);
    CHECK(equal == std::vector<int>(equal.size(), 1));
  }
}

}  // namespace
}  // namespace rondo

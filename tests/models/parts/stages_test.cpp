// Stages of small decoders, one after the other on one rank, against the whole: what they have of
// it, and the bits that come out.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <map>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama3/llama3.h"
#include "models/parts/decoder.h"
#include "parallel/rank_context.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;
using Decoders = std::vector<std::shared_ptr<const Decoder>>;

constexpr std::int64_t kRows = 2, kLength = 9, kLayers = 3;
constexpr std::uint32_t kSplits = 1U << (kLayers + 1);

// DeepSeek-V3's first layer has no experts; gpt-oss's first and third have a window.
std::shared_ptr<const Decoder> whole(const std::string& name) {
  Llama3Config llama = Llama3Config().small();
  DeepSeekV3Config deepseek = DeepSeekV3Config().small();
  GptOssConfig gpt = GptOssConfig().small();
  llama.n_layers = deepseek.n_layers = gpt.n_layers = kLayers;
  deepseek.n_experts = gpt.n_experts = 6;
  deepseek.sequence_balance_coeff = 0.01, gpt.sliding_window = 4;
  if (name == llama.kName) return make_decoder(llama);
  return name == deepseek.kName ? make_decoder(deepseek) : make_decoder(gpt);
}

// The parts of embedding, layers and head, in a row, with a border wherever the bit is set.
std::vector<StagePart> split(std::uint32_t borders) {
  std::vector<StagePart> parts = {{0, 0, true, false}};
  for (std::int64_t layer = 0; layer <= kLayers; ++layer) {
    if ((borders >> layer & 1U) != 0) parts.push_back({layer, 0, false, false});
    if (layer < kLayers) ++parts.back().layers;
  }
  parts.back().head = true;
  return parts;
}

Decoders stages_of(const Decoder& model, const std::vector<StagePart>& parts) {
  Decoders stages;
  for (const StagePart& part : parts) stages.push_back(model.stage(part));
  return stages;
}

// Values by the names of parameters and biases, and a batch.
struct Problem {
  explicit Problem(const Decoder& model) {
    at::manual_seed(5);
    for (const ParameterRule& rule : model.parameters())
      values[rule.name] = at::randn({element_count(rule)}) * 0.2;
    for (const ExpertBias& bias : model.expert_biases()) values[bias.name] = at::randn({bias.experts}) * 0.1;
    for (const Buffer& buffer : model.buffers(kLength)) buffers.push_back(buffer.value.to(at::kFloat));
    tokens_BT = at::randint(model.vocabulary(), {kRows, kLength}, at::kLong);
    logits_gradient = at::randn({kRows, kLength, model.vocabulary()});
  }
  std::map<std::string, Tensor> values;
  std::vector<Tensor> buffers;
  Tensor tokens_BT, logits_gradient;
};

// One stage with its own weights alone: another's would be missing.
class Stage {
 public:
  Stage(std::shared_ptr<const Decoder> decoder, const Problem& problem, at::ScalarType dtype)
      : decoder_(std::move(decoder)), loads_(decoder_->routers().size()) {
    ShardedParameters parameters;
    for (const ParameterRule& rule : decoder_->parameters()) {
      inputs_.push_back(problem.values.at(rule.name).clone().requires_grad_(true));
      parameters[rule.name] = {inputs_.back(), rule.sizes, {}};
    }
    ranks_ = rank_context(std::move(parameters), {.fsdp = {.compute_dtype = dtype}});
    forward_ = {.rows = kRows,
                .length = kLength,
                .buffers = problem.buffers,
                .checkpoint = {.every = 2},
                .loads = &loads_,
                .sequence_weight = 0.5};
    for (const ExpertBias& bias : decoder_->expert_biases())
      forward_.expert_biases.push_back(problem.values.at(bias.name));
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Tensor begin(const Tensor& tokens_BT) {
    forward_.tokens_BT = tokens_BT;
    return output_ = decoder_->forward(ranks_, forward_);
  }
  Tensor go_on(const Tensor& hidden_ND) {
    forward_.hidden_ND = hidden_ND.detach().requires_grad_(true);
    inputs_.push_back(*forward_.hidden_ND);
    return output_ = decoder_->forward(ranks_, forward_);
  }
  // Of the parameters in their order, and of what came in.
  std::vector<Tensor> backward(const Tensor& gradient) {
    return torch::autograd::grad({output_}, inputs_, {gradient});
  }
  const std::vector<RouterLoad>& loads() const { return loads_; }

 private:
  std::shared_ptr<const Decoder> decoder_;
  std::vector<RouterLoad> loads_;
  RankContext ranks_;
  ForwardInputs forward_;
  std::vector<Tensor> inputs_;
  Tensor output_;
};

struct Results {
  Tensor logits;
  std::vector<Tensor> gradients, loads;  // of the whole model, in its order
};
Results run(const Decoders& stages, const Problem& problem, at::ScalarType dtype) {
  std::vector<std::unique_ptr<Stage>> ready;
  Tensor h;
  for (const auto& decoder : stages) {
    ready.push_back(std::make_unique<Stage>(decoder, problem, dtype));
    h = ready.size() == 1 ? ready.back()->begin(problem.tokens_BT) : ready.back()->go_on(h);
    CHECK(h.scalar_type() == dtype);
    if (ready.size() < stages.size()) CHECK(h.sizes() == at::IntArrayRef({kRows * kLength, decoder->dim()}));
  }
  Results results{h.detach(), {}, {}};
  for (const auto& stage : ready)
    for (const RouterLoad& load : stage->loads()) results.loads.push_back(load.tokens_per_expert_E);
  Tensor gradient = problem.logits_gradient.to(dtype);
  for (std::size_t i = ready.size(); i-- > 0;) {
    std::vector<Tensor> made = ready[i]->backward(gradient);
    if (i > 0) {
      gradient = made.back();
      made.pop_back();
    }
    results.gradients.insert(results.gradients.begin(), made.begin(), made.end());
  }
  return results;
}

void check_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(i);
    CHECK(at::equal(found[i], wanted[i]));
  }
}

// The blocks that open, in order.
struct Blocks final : ScopeObserver {
  Blocks() { set_scope_observer(this); }
  ~Blocks() { set_scope_observer(nullptr); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  void module_changed(const std::string&) override {}
  void block_opened(const std::string& path) override { opened.push_back(path); }
  std::vector<std::string> opened;
};

}  // namespace

TEST_CASE("stages of every split, forward and backward, give the bits of the whole model") {
  const std::string name = GENERATE("llama3", "deepseek_v3", "gpt_oss");
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  INFO(name << " in " << c10::toString(dtype));
  const auto model = whole(name);
  const Problem problem(*model);
  const Results wanted = run({model}, problem, dtype);
  CHECK(wanted.logits.isfinite().all().item<bool>());
  for (std::uint32_t borders = 0; borders < kSplits; ++borders) {
    INFO("borders " << borders);
    const Results found = run(stages_of(*model, split(borders)), problem, dtype);
    CHECK(at::equal(found.logits, wanted.logits));
    check_equal(found.gradients, wanted.gradients);
    check_equal(found.loads, wanted.loads);
  }
}

TEST_CASE("parameters, routers and biases of stages are the model's, cut, and so is the cost") {
  const std::string name = GENERATE("llama3", "deepseek_v3", "gpt_oss");
  const auto model = whole(name);
  const auto names_of = [](const Decoders& stages) {
    std::vector<std::string> names;
    for (const auto& stage : stages) {
      for (const ParameterRule& rule : stage->parameters())
        names.push_back(rule.name + " of " + rule.bucket + ", " + rule.hugging_face_name);
    }
    for (const auto& stage : stages)
      for (const std::string& router : stage->routers()) names.push_back(router);
    for (const auto& stage : stages)
      for (const ExpertBias& bias : stage->expert_biases()) names.push_back(bias.name);
    return names;
  };
  for (std::uint32_t borders = 0; borders < kSplits; ++borders) {
    INFO(name << ", borders " << borders);
    const Decoders stages = stages_of(*model, split(borders));
    CHECK(names_of(stages) == names_of({model}));
    std::int64_t cost = 0, layers = 0;
    for (const auto& stage : stages) {
      cost += stage->flops_per_token(20);
      layers += stage->layers();
      CHECK(stage->vocabulary() == model->vocabulary());
      CHECK(stage->buffers(3).size() == model->buffers(3).size());
      CHECK(stage->load_balance_coeff() == model->load_balance_coeff());
      REQUIRE(stage->routed_tokens().has_value() == model->routed_tokens().has_value());
      if (stage->routed_tokens()) CHECK(stage->routed_tokens()->experts == model->routed_tokens()->experts);
    }
    CHECK(layers == model->layers());
    // Each stage rounds what its windows cost.
    CHECK(std::abs(cost - model->flops_per_token(20)) <= 6 * std::ssize(stages));
  }
}

TEST_CASE("blocks of a stage are computed again by their number in the whole model, under its names") {
  const auto model = whole("llama3");
  const Problem problem(*model);
  const auto opened = [&](const StagePart& part) {
    const Blocks blocks;
    Stage stage(model->stage(part), problem, at::kFloat);
    const Tensor hidden = at::randn({kRows * kLength, model->dim()});
    stage.backward(stage.go_on(hidden).detach());
    return blocks.opened;
  };
  CHECK(opened({1, 2, false, false}) == std::vector<std::string>{"layers.1", "layers.2", "layers.1"});
  CHECK(opened({2, 1, false, false}) == std::vector<std::string>{"layers.2"});
}

TEST_CASE("a stage of no layers has no parameters and hands on h, and its gradient") {
  const auto model = whole("deepseek_v3");
  const Problem problem(*model);
  Stage stage(model->stage({2, 0, false, false}), problem, at::kBFloat16);
  const Tensor hidden = at::randn({kRows * kLength, model->dim()}).to(at::kBFloat16);
  CHECK(at::equal(stage.go_on(hidden), hidden));
  const std::vector<Tensor> gradients = stage.backward(hidden * 2);
  REQUIRE(gradients.size() == 1);
  CHECK(at::equal(gradients[0], hidden * 2));
}

TEST_CASE("a model whose embedding is its head has one stage") {
  Llama3Config config = Llama3Config().small();
  config.tie_embeddings = true;
  const auto model = make_decoder(config);
  CHECK(model->ties_embeddings());
  CHECK_THROWS(model->stage({0, 1, true, false}));
  CHECK(model->stage({0, config.n_layers})->parameters().size() == model->parameters().size());
}

TEST_CASE("what a stage has not, or begins with, is refused") {
  const auto model = whole("llama3");
  CHECK_THROWS(model->stage({2, kLayers - 1, false, true}));
  CHECK_THROWS(model->stage({0, 1, true, false})->stage({0, 1, true, false}));
  const Problem problem(*model);
  CHECK_THROWS(Stage(model->stage({1, 1, false, false}), problem, at::kFloat).begin(problem.tokens_BT));
  CHECK_THROWS(Stage(model->stage({0, 1, true, false}), problem, at::kFloat)
                   .go_on(at::randn({kRows * kLength, model->dim()})));
}

}  // namespace rondo

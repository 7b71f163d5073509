// A decoder's table of parameters: for each its name here and at Hugging Face, its sizes, how tensor
// parallelism cuts it, and its initial values. The parameters stand in the order in which decode() (layers.h)
// and a block read them. No LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rondo {

// How a parameter starts. Normal draws are a function of (seed, name, global element index) alone:
// models/parts/initialize.h.
struct Init {
  enum class Kind { constant, normal, truncated_normal };
  Kind kind = Kind::constant;
  double value = 0;  // constant: the value; otherwise the standard deviation
  double cut = 0;    // truncated_normal: bounds are +-cut in the parameter's own unit
};

// How tensor and expert parallelism cut a parameter (Note [Cuts] in parallel/flat_shard.h), as PyTorch says
// it.
enum class ParallelStyle : std::uint8_t {
  replicated,
  colwise,  // dimension 0 of [out, in]: outputs of a linear layer, ids of a vocabulary
  rowwise,  // dimension 1: inputs of a linear layer, whose results are then partial sums
  experts,  // dimension 0, over the ranks that share the experts; and maybe as ExpertCut says
};

// How tensor parallelism can cut each expert: along a later dimension, and of each of the equal blocks that
// lie there (gates beside ups). 0: not at all; then a row meets it on one of the ranks that share the expert.
struct ExpertCut {
  int dim = 0;
  std::int64_t blocks = 1;
};

struct ParameterRule {
  std::string name;  // also the module path: "layers.0.attention.wq.weight"
  std::vector<std::int64_t> sizes;
  ParallelStyle style = ParallelStyle::replicated;
  Init init;
  // "model.layers.0.self_attn.q_proj.weight"; the values are the same there. With a `*` it stands for one
  // tensor for each index of the first dimension: "model.layers.3.mlp.experts.*.up_proj.weight".
  std::string hugging_face_name;
  ExpertCut expert_cut = {};
  std::string bucket = {};  // what is gathered and reduced together: "embedding", "layers.0", "head"
  bool linear = false;      // [out, in] of a linear layer: Weights::linear (parallel/simple_fsdp.h)
};

inline constexpr Init kOnes{Init::Kind::constant, 1.0, 0.0};
inline constexpr Init kZeros{Init::Kind::constant, 0.0, 0.0};

// How the matrices of a model start. Norms start as ones.
struct InitialWeights {
  Init embedding, head;           // where they are one matrix, it starts as the head
  Init matrix;                    // of a block
  bool falls_with_depth = false;  // deviations of ParameterTable::deep() are divided by sqrt(2 (layer + 1))
};
// torchtitan's for Llama 3 and DeepSeek-V3 (their model.py, init_weights).
InitialWeights torchtitan_weights(std::int64_t dim);
// Every matrix alike.
constexpr InitialWeights equal_weights(const Init& init) { return {init, init, init}; }

// What stands before and behind the blocks.
struct DecoderEnds {
  std::int64_t dim, vocab_size;
  bool tie_embeddings = false;  // the head is the token embedding
};

// Consecutive layers of a decoder, with the embedding before them or the head behind them: a stage of a
// pipeline. The last norm belongs to the head.
struct StagePart {
  std::int64_t first_layer = 0, layers = 0;
  bool embedding = true, head = true;
  std::int64_t end() const { return first_layer + layers; }
  bool operator==(const StagePart&) const = default;
};

class ParameterTable {
 public:
  using AddBlock = std::function<void(ParameterTable&, std::size_t layer)>;

  // Of the part: the embedding, what add_block adds for each layer, the last norm and, where it is not the
  // embedding, the head.
  ParameterTable(const DecoderEnds& ends, const StagePart& part, const InitialWeights& initial,
                 const AddBlock& add_block);

  // Of the layer that add_block is called for: "layers.3.NAME.weight" and "model.layers.3.THEIRS.weight".
  void add(const std::string& name, const std::string& theirs, std::vector<std::int64_t> sizes,
           ParallelStyle style, const Init& init, const ExpertCut& expert_cut = {});

  // The same of a linear layer, [out, in].
  void add_linear(const std::string& name, const std::string& theirs, std::int64_t out, std::int64_t in,
                  ParallelStyle style, const Init& init);

  // The same with whole names: "layers.3.NAME" and "model.layers.3.THEIRS".
  void add_named(const std::string& name, const std::string& theirs, std::vector<std::int64_t> sizes,
                 ParallelStyle style, const Init& init, const ExpertCut& expert_cut = {});

  std::int64_t dim() const { return ends_.dim; }
  // How a matrix of this layer starts; and one near the stream, whose deviation may fall with the depth.
  const Init& plain() const { return initial_.matrix; }
  Init deep() const;

  const std::vector<ParameterRule>& rules() const { return rules_; }

 private:
  DecoderEnds ends_;
  InitialWeights initial_;
  std::size_t layer_ = 0;
  std::string ours_, theirs_;  // how the names begin
  std::vector<ParameterRule> rules_;
};

}  // namespace rondo

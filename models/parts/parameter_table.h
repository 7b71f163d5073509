// The parameter table of a decoder. Each rule holds a parameter's name here and at Hugging Face,
// its sizes, its sharding under tensor parallelism, and its initial values. The order is that in
// which decode() (layers.h) and a block read the parameters. No LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rondo {

// The initialization of a parameter. A normal draw depends only on (seed, name, global element
// index): models/parts/initialize.h.
struct Init {
  enum class Kind { constant, normal, truncated_normal };
  Kind kind = Kind::constant;
  double value = 0;  // constant: the value; else the standard deviation
  double cut = 0;    // truncated_normal: bounds are +-cut in the parameter's own unit
};

// Sharding of a parameter under tensor and expert parallelism (Note [Cuts] in
// parallel/flat_shard.h), in PyTorch's terms.
enum class ParallelStyle : std::uint8_t {
  replicated,
  colwise,  // dimension 0 of [out, in]: outputs of a linear layer, ids of a vocabulary
  rowwise,  // dimension 1: inputs of a linear layer, whose results are then partial sums
  experts,  // dimension 0, over the ranks that share the experts; see also ExpertCut
};

// Sharding of each expert under tensor parallelism: along a later dimension, separately in each of
// its equal blocks (gates and ups). 0: not sharded. Then one of the ranks that share the expert
// processes a given row.
struct ExpertCut {
  int dim = 0;
  std::int64_t blocks = 1;
};

struct ParameterRule {
  std::string name;  // also the module path: "layers.0.attention.wq.weight"
  std::vector<std::int64_t> sizes;
  ParallelStyle style = ParallelStyle::replicated;
  Init init;
  // "model.layers.0.self_attn.q_proj.weight"; its values are the same as here. A `*` stands for one
  // tensor for each index of the first dimension: "model.layers.3.mlp.experts.*.up_proj.weight".
  std::string hugging_face_name;
  ExpertCut expert_cut = {};
  // Unit of all-gather and reduce-scatter: "embedding", "layers.0", "head".
  std::string bucket = {};
  bool linear = false;        // [out, in] of a linear layer: Weights::linear (parallel/simple_fsdp.h)
  bool inputs_first = false;  // matrices of experts are [in, out]

  // Returns whether the parameter is a matrix between hidden states, or one for each expert. Not
  // the embedding, the head, a router, or a list of vectors.
  bool is_hidden_matrix() const;
};

inline constexpr Init kOnes{Init::Kind::constant, 1.0, 0.0};
inline constexpr Init kZeros{Init::Kind::constant, 0.0, 0.0};

// Initialization of the matrices. Norms start as ones.
struct InitialWeights {
  Init embedding, head;           // tied weights start as the head
  Init matrix;                    // matrices of a block
  bool falls_with_depth = false;  // deep() divides deviations by sqrt(2 (layer + 1))
};
// torchtitan's for Llama 3 and DeepSeek-V3 (their model.py, init_weights).
InitialWeights torchtitan_weights(std::int64_t dim);
// Returns the same initialization for every matrix.
constexpr InitialWeights equal_weights(const Init& init) { return {init, init, init}; }

// Sizes of the embedding and the head.
struct DecoderEnds {
  std::int64_t dim, vocab_size;
  bool tie_embeddings = false;  // the head shares the token embedding's weight
};

// A pipeline stage: consecutive layers, optionally with the embedding and the head. The last norm
// belongs to the head.
struct StagePart {
  std::int64_t first_layer = 0, layers = 0;
  bool embedding = true, head = true;
  std::int64_t end() const { return first_layer + layers; }
  bool operator==(const StagePart&) const = default;
};

class ParameterTable {
 public:
  using AddBlock = std::function<void(ParameterTable&, std::size_t layer)>;

  // Builds the table of the part: the embedding, the parameters that add_block adds for each layer,
  // the last norm, and the head unless it is tied to the embedding.
  ParameterTable(const DecoderEnds& ends, const StagePart& part, const InitialWeights& initial,
                 const AddBlock& add_block);

  // Adds "layers.3.NAME.weight" and "model.layers.3.THEIRS.weight" for the current layer
  // of add_block.
  void add(const std::string& name, const std::string& theirs, std::vector<std::int64_t> sizes,
           ParallelStyle style, const Init& init, const ExpertCut& expert_cut = {});

  // Adds the weight of a linear layer, [out, in].
  void add_linear(const std::string& name, const std::string& theirs, std::int64_t out, std::int64_t in,
                  ParallelStyle style, const Init& init);

  // Adds complete names: "layers.3.NAME" and "model.layers.3.THEIRS".
  void add_named(const std::string& name, const std::string& theirs, std::vector<std::int64_t> sizes,
                 ParallelStyle style, const Init& init, const ExpertCut& expert_cut = {},
                 bool inputs_first = false);

  std::int64_t dim() const { return ends_.dim; }
  // Initialization of a matrix of this layer, and of one that writes to the residual stream. The
  // deviation of the latter may fall with depth.
  const Init& plain() const { return initial_.matrix; }
  Init deep() const;

  const std::vector<ParameterRule>& rules() const { return rules_; }

 private:
  DecoderEnds ends_;
  InitialWeights initial_;
  std::size_t layer_ = 0;
  std::string ours_, theirs_;  // prefixes of the names
  std::vector<ParameterRule> rules_;
};

}  // namespace rondo

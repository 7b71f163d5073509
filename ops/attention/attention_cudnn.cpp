// A graph describes tensors by sizes and strides, and a plan executes it on pointers. Plans are
// kept by all that describes a graph, for the lifetime of the process.
//
// Sequences are cuDNN's ragged batch: one entry of the batch per sequence, as long as a row at
// most, with its length, and the index of its first element in each tensor. Scores are [B * T, H]
// there, because cuDNN sizes its memory by the number of tokens in this layout alone.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "ops/attention/attention_cudnn.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cudnn/Handle.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_heads.h"
#include "ops/kernel/launch.h"
#include "support/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend takes cuDNN's functions from here
}

namespace rondo {
namespace {

namespace fe = cudnn_frontend;
using at::Tensor;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

// The tensors of a graph.
enum Id : std::int64_t { kQ, kK, kV, kOutput, kGrad, kGradQ, kGradK, kGradV, kScores };
// The ragged sequences of queries or of keys: ids of their lengths, and of the begins of stride i.
enum Side : std::int64_t { kQueries = 100, kKeys = 200 };
constexpr std::int64_t begins_id(Side side, std::size_t stride) {
  return side + 1 + static_cast<std::int64_t>(stride);
}
constexpr Side side_of(std::int64_t id) {
  return id == kK || id == kV || id == kGradK || id == kGradV ? kKeys : kQueries;
}

// Heads in memory. A token's heads and their elements have fixed strides.
struct View {
  std::int64_t heads, width, head_stride, token_stride;
  auto operator<=>(const View&) const = default;
};

struct Problem {
  int device;
  bool backward;
  std::int64_t rows, queries, keys;  // queries and keys of a row
  std::int64_t sequences;            // in all rows; 0: each row is one
  std::int64_t left;                 // AttentionMask::left
  double scale;
  std::vector<View> views;  // of kQ to kOutput, and in a backward to kGradV
  bool operator<(const Problem& other) const {
    const auto key = [](const Problem& p) {
      return std::tie(p.device, p.backward, p.rows, p.queries, p.keys, p.sequences, p.left, p.scale, p.views);
    };
    return key(*this) < key(other);
  }
  bool is_ragged() const { return sequences > 0; }
  std::int64_t tokens(Side side) const { return side == kQueries ? queries : keys; }
  // The distinct strides of the tokens of a side. Scores are a token of H elements.
  std::vector<std::int64_t> token_strides(Side side) const {
    std::vector<std::int64_t> strides;
    if (side == kQueries) strides.push_back(views[kQ].heads);
    for (std::size_t id = 0; id < views.size(); ++id)
      if (side_of(static_cast<std::int64_t>(id)) == side) strides.push_back(views[id].token_stride);
    std::sort(strides.begin(), strides.end());
    strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
    return strides;
  }
};

void check(fe::error_t error, const Problem& p) {
  if (error.is_good()) return;
  throw Error(
      ExitCode::config,
      fmt::format("cuDNN refuses attention of {} sequences of at most {} tokens, {} heads of {} and {} "
                  "elements{}: {}; set compile.attention = \"flash\"",
                  p.is_ragged() ? p.sequences : p.rows, p.keys, p.views[kQ].heads, p.views[kQ].width,
                  p.views[kV].width, p.backward ? ", backward" : "", error.get_message()));
}

// --- graphs ---

class GraphOf {
 public:
  explicit GraphOf(const Problem& problem) : p_(problem) {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (p_.is_ragged()) queries_ = ragged(kQueries), keys_ = ragged(kKeys);
  }

  void add_forward() {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    auto [output, scores] = graph_.sdpa(input(kQ), input(kK), input(kV), with_mask(options));
    describe(output->set_output(true), kOutput);
    describe_scores(scores->set_output(true));
  }

  void add_backward() {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    if (p_.is_ragged())
      options.set_max_total_seq_len_q(p_.rows * p_.queries).set_max_total_seq_len_kv(p_.rows * p_.keys);
    fe::graph::Tensor_attributes scores;
    describe_scores(scores);
    auto [grad_q, grad_k, grad_v] =
        graph_.sdpa_backward(input(kQ), input(kK), input(kV), input(kOutput), input(kGrad),
                             graph_.tensor(scores), with_mask(options));
    describe(grad_q->set_output(true), kGradQ);
    describe(grad_k->set_output(true), kGradK);
    describe(grad_v->set_output(true), kGradV);
  }

  fe::graph::Graph take() { return std::move(graph_); }

 private:
  struct Ragged {
    Attributes lengths;
    std::vector<std::int64_t> strides;
    std::vector<Attributes> begins;  // for each stride
    Attributes begins_of(std::int64_t stride) const {
      const auto at = std::find(strides.begin(), strides.end(), stride);
      return begins[static_cast<std::size_t>(at - strides.begin())];
    }
  };

  Attributes column(std::int64_t id, std::int64_t size, fe::DataType_t type) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(id)
                             .set_dim({size, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }
  Ragged ragged(Side side) {
    Ragged result{column(side, p_.sequences, fe::DataType_t::INT32), p_.token_strides(side), {}};
    for (std::size_t i = 0; i < result.strides.size(); ++i)
      result.begins.push_back(column(begins_id(side, i), p_.sequences + 1, fe::DataType_t::INT64));
    return result;
  }

  std::int64_t batch() const { return p_.is_ragged() ? p_.sequences : p_.rows; }

  void describe(fe::graph::Tensor_attributes& tensor, Id id) const {
    const View& view = p_.views[static_cast<std::size_t>(id)];
    const Side side = side_of(id);
    tensor.set_uid(id)
        .set_dim({batch(), view.heads, p_.tokens(side), view.width})
        .set_stride({p_.tokens(side) * view.token_stride, view.head_stride, view.token_stride, 1});
    if (p_.is_ragged())
      tensor.set_ragged_offset((side == kQueries ? queries_ : keys_).begins_of(view.token_stride));
  }
  Attributes input(Id id) {
    fe::graph::Tensor_attributes tensor;
    describe(tensor, id);
    return graph_.tensor(tensor);
  }

  void describe_scores(fe::graph::Tensor_attributes& scores) const {
    const std::int64_t heads = p_.views[kQ].heads, tokens = p_.queries;
    scores.set_uid(kScores).set_data_type(fe::DataType_t::FLOAT).set_dim({batch(), heads, tokens, 1});
    if (p_.is_ragged())
      scores.set_stride({tokens * heads, 1, heads, 1}).set_ragged_offset(queries_.begins_of(heads));
    else
      scores.set_stride({heads * tokens, tokens, 1, 1});
  }

  template <class Options>
  Options& with_mask(Options& options) const {
    options.set_attn_scale(static_cast<float>(p_.scale)).set_diagonal_band_right_bound(0);
    options.set_diagonal_alignment(p_.queries == p_.keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                         : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    // cuDNN counts the token itself.
    if (p_.left >= 0) options.set_diagonal_band_left_bound(static_cast<int>(p_.left + 1));
    if (p_.is_ragged())
      options.set_padding_mask(true).set_seq_len_q(queries_.lengths).set_seq_len_kv(keys_.lengths);
    return options;
  }

  const Problem& p_;
  fe::graph::Graph graph_;
  Ragged queries_, keys_;
};

// --- plans ---

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace_bytes = 0;
};

// The library that LibTorch has loaded.
void load_cudnn() {
  static std::once_flag once;
  std::call_once(once, [] {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
    if (fe::cudnn_dlhandle == nullptr)
      throw Error(ExitCode::environment, fmt::format("cannot load cuDNN: {}", dlerror()));
  });
}

std::unique_ptr<Plan> build(const Problem& p, cudnnHandle_t handle) {
  RONDO_ASSERT(c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None,
               "a plan of cuDNN is built before a capture");
  GraphOf graph(p);
  p.backward ? graph.add_backward() : graph.add_forward();
  auto plan = std::make_unique<Plan>(Plan{graph.take()});
  check(plan->graph.build(handle, {fe::HeurMode_t::A}), p);
  check(plan->graph.get_workspace_size(plan->workspace_bytes), p);
  return plan;
}

const Plan& plan_of(const Problem& p, cudnnHandle_t handle) {
  static std::mutex mutex;
  static std::map<Problem, std::unique_ptr<Plan>> plans;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plan>& plan = plans[p];
  if (!plan) plan = build(p, handle);
  return *plan;
}

// --- execution ---

// Returns heads whose rows follow each other, as ragged sequences require.
Tensor in_rows(const Tensor& x_BHTD) {
  const bool follow = x_BHTD.size(0) == 1 || x_BHTD.stride(0) == x_BHTD.size(2) * x_BHTD.stride(2);
  return follow ? x_BHTD : as_planned(x_BHTD);
}

View view_of(const Tensor& x_BHTD) {
  return {x_BHTD.size(1), x_BHTD.size(3), x_BHTD.stride(1), x_BHTD.stride(2)};
}

using Pointers = std::unordered_map<std::int64_t, void*>;

// Adds the lengths and begins of a side to the pointers, and returns their memory.
std::array<Tensor, 2> add_ragged(const Problem& p, Side side, const Tensor& borders, cudaStream_t stream,
                                 Pointers& pointers) {
  const std::vector<std::int64_t> strides = p.token_strides(side);
  cuda::TokenStrides of_kernel{{}, static_cast<int>(strides.size())};
  std::copy(strides.begin(), strides.end(), of_kernel.elements);
  const Tensor lengths = at::empty({p.sequences}, borders.options()),
               begins = at::empty({of_kernel.count, p.sequences + 1}, borders.options().dtype(at::kLong));
  auto* const data = begins.mutable_data_ptr<std::int64_t>();
  cuda::ragged_sequences(int32_data(borders), p.sequences, of_kernel, int32_data(lengths), data, stream);
  pointers[side] = lengths.mutable_data_ptr();
  for (std::size_t i = 0; i < strides.size(); ++i)
    pointers[begins_id(side, i)] = data + static_cast<std::int64_t>(i) * (p.sequences + 1);
  return {lengths, begins};
}

// Executes the plan on kQ to kOutput and, in a backward, to kGradV.
void execute(const KernelOperands& in, const std::optional<AttentionSequences>& sequences,
             const std::vector<Tensor>& tensors, const Tensor& scores) {
  const cuda::Launch launch(in.q, "attention");
  load_cudnn();
  Problem p{in.q.device().index(),
            tensors.size() > kGrad,
            in.rows(),
            in.tokens(),
            in.keys(),
            sequences ? sequences->of_queries.numel() - 1 : 0,
            in.mask.left,
            in.scale,
            {}};
  Pointers pointers{{kScores, scores.mutable_data_ptr()}};
  for (const Tensor& tensor : tensors) {
    pointers[static_cast<std::int64_t>(p.views.size())] = const_cast<void*>(tensor.const_data_ptr());
    p.views.push_back(view_of(tensor));
  }
  std::array<Tensor, 2> of_queries, of_keys;
  if (sequences) {
    of_queries = add_ragged(p, kQueries, sequences->of_queries, launch.stream(), pointers);
    of_keys = add_ragged(p, kKeys, sequences->of_keys, launch.stream(), pointers);
    launch.check();
  }
  cudnnHandle_t handle = at::native::getCudnnHandle();  // of the current stream
  const Plan& plan = plan_of(p, handle);
  const Tensor workspace = at::empty({plan.workspace_bytes}, in.q.options().dtype(at::kByte));
  check(plan.graph.execute(handle, pointers, workspace.mutable_data_ptr()), p);
}

// Scores [B, H, T] and cuDNN's, which are [B * T, H] for sequences.
Tensor empty_scores(const KernelOperands& in, bool is_ragged) {
  const Tensor planned = empty_logsumexp(in.q);
  return is_ragged ? at::empty({in.rows() * in.tokens(), in.heads()}, planned.options()) : planned;
}

KernelOperands rows_of(const KernelOperands& in) {
  KernelOperands operands = in;
  operands.q = in_rows(in.q), operands.k = in_rows(in.k), operands.v = in_rows(in.v);
  return operands;
}

}  // namespace

bool has_cudnn_graphs() { return true; }

AttentionOutputs cudnn_graph_attention(const KernelOperands& operands,
                                       const std::optional<AttentionSequences>& sequences) {
  const KernelOperands in = rows_of(operands);
  const Tensor output = empty_heads(in.q, in.v.size(3)), scores = empty_scores(in, sequences.has_value());
  execute(in, sequences, {in.q, in.k, in.v, output}, scores);
  if (!sequences) return {output, scores};
  return {output, scores.view({in.rows(), in.tokens(), in.heads()}).transpose(1, 2)};
}

AttentionGradients cudnn_graph_attention_backward(const KernelOperands& operands,
                                                  const std::optional<AttentionSequences>& sequences,
                                                  const Tensor& grad, const Tensor& output,
                                                  const Tensor& logsumexp) {
  const KernelOperands in = rows_of(operands);
  const Tensor scores =
      sequences ? logsumexp.transpose(1, 2).contiguous() : logsumexp.contiguous();  // [B, T, H] or [B, H, T]
  const AttentionGradients gradients{empty_heads(in.q), empty_heads(in.k), empty_heads(in.v)};
  const auto& [grad_q, grad_k, grad_v] = gradients;
  // cuDNN writes no gradient of a sequence without queries.
  if (in.tokens() != in.keys()) grad_k.zero_(), grad_v.zero_();
  execute(in, sequences, {in.q, in.k, in.v, in_rows(output), in_rows(grad), grad_q, grad_k, grad_v}, scores);
  return gradients;
}

}  // namespace rondo

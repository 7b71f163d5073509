// A build without the headers of nvidia-cudnn-frontend. attention_choice.cpp selects no graph here.
#include "ops/attention/attention_cudnn.h"
#include "support/error.h"

namespace rondo {

bool has_cudnn_graphs() { return false; }

AttentionOutputs cudnn_graph_attention(const KernelOperands&, const std::optional<AttentionSequences>&) {
  RONDO_ASSERT(has_cudnn_graphs(), "attention_choice.cpp asks for the headers");
  return {};
}
AttentionGradients cudnn_graph_attention_backward(const KernelOperands&,
                                                  const std::optional<AttentionSequences>&, const at::Tensor&,
                                                  const at::Tensor&, const at::Tensor&) {
  RONDO_ASSERT(has_cudnn_graphs(), "attention_choice.cpp asks for the headers");
  return {};
}

}  // namespace rondo

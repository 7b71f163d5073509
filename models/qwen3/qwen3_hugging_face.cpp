// Maps Hugging Face's "model_type": "qwen3" to qwen3.
#include "models/hugging_face/model_type.h"
#include "models/qwen3/qwen3.h"

namespace rondo {

const hugging_face::ModelType& Qwen3Config::hugging_face_type() {
  static const hugging_face::ModelType type = {
      .name = "qwen3",
      .architecture = "Qwen3ForCausalLM",
      .defaults = {{"norm_eps", 1e-6},
                   {"head_dim", std::int64_t{128}},
                   {"max_seq_len", std::int64_t{32768}},
                   {"tie_embeddings", false}},
      .sizes = hugging_face::grouped_query_names({{"intermediate_size", "ffn_hidden_dim"}}),
      .fixed = hugging_face::grouped_query_fixed(),
      .read_rest = hugging_face::read_grouped_query_rest};
  return type;
}

}  // namespace rondo

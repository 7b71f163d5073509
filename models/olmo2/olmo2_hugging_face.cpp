// Maps Hugging Face's "model_type": "olmo2" to olmo2.
#include "models/hugging_face/model_type.h"
#include "models/olmo2/olmo2.h"

namespace rondo {

const hugging_face::ModelType& Olmo2Config::hugging_face_type() {
  static const hugging_face::ModelType type = {
      .name = "olmo2",
      .architecture = "Olmo2ForCausalLM",
      .defaults = {{"norm_eps", 1e-5}, {"max_seq_len", std::int64_t{2048}}, {"tie_embeddings", false}},
      .sizes = hugging_face::grouped_query_names({{"intermediate_size", "ffn_hidden_dim"}}),
      .fixed = hugging_face::grouped_query_fixed(),
      .read_rest = hugging_face::read_grouped_query_rest};
  return type;
}

}  // namespace rondo

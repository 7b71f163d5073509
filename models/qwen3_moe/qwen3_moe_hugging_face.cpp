// Maps Hugging Face's "model_type": "qwen3_moe" to qwen3_moe.
#include "models/hugging_face/model_type.h"
#include "models/qwen3_moe/qwen3_moe.h"

namespace rondo {
namespace {

using hugging_face::FieldsReader;
using Json = nlohmann::json;

void read_experts(FieldsReader& reader, FieldValues& sizes) {
  hugging_face::read_grouped_query_rest(reader, sizes);
  // transformers 5 renames num_experts to num_local_experts.
  reader.take_size("num_local_experts", Qwen3MoeConfig::fields(), "n_experts", sizes);
  if (!sizes.contains("n_experts")) reader.require("num_experts");
  // These fields concern dense layers, which the model does not have, or training.
  for (const char* name : {"intermediate_size", "output_router_logits", "router_aux_loss_coef"})
    reader.take(name);
}

void write_experts(const FieldValues& sizes, Json&) {
  hugging_face::refuse_load_bias(sizes, "Qwen3MoeForCausalLM");
}

}  // namespace

const hugging_face::ModelType& Qwen3MoeConfig::hugging_face_type() {
  constexpr bool kOptional = false, kWritten = true;
  static const hugging_face::ModelType type = {
      .name = "qwen3_moe",
      .architecture = "Qwen3MoeForCausalLM",
      .defaults = {{"norm_eps", 1e-6},
                   {"max_seq_len", std::int64_t{32768}},
                   {"route_norm", false},
                   {"tie_embeddings", false}},
      .sizes = hugging_face::grouped_query_names({{"moe_intermediate_size", "moe_hidden_dim"},
                                                  {"num_experts", "n_experts", kOptional},
                                                  {"num_experts_per_tok", "top_k"},
                                                  {"norm_topk_prob", "route_norm", kOptional}}),
      .fixed = hugging_face::grouped_query_fixed(
          {{"decoder_sparse_step", 1, "layers without experts are", kWritten},
           {"mlp_only_layers", Json::array(), "layers without experts are", kWritten}}),
      .read_rest = read_experts,
      .write_rest = write_experts};
  return type;
}

}  // namespace rondo

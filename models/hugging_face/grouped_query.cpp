// The fields of a config.json that models with grouped-query attention share.
#include <fmt/format.h>

#include "models/hugging_face/model_type.h"
#include "support/error.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

template <class Row>
std::vector<Row> joined(std::vector<Row> rows, std::vector<Row> more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace

std::vector<SizeName> grouped_query_names(std::vector<SizeName> more) {
  constexpr bool kOptional = false;
  return joined({{"hidden_size", "dim"},
                 {"num_hidden_layers", "n_layers"},
                 {"num_attention_heads", "n_heads"},
                 {"num_key_value_heads", "n_kv_heads", kOptional},
                 {"head_dim", "head_dim", kOptional},
                 {"vocab_size", "vocab_size"},
                 {"rms_norm_eps", "norm_eps", kOptional},
                 {"max_position_embeddings", "max_seq_len", kOptional},
                 {"tie_word_embeddings", "tie_embeddings", kOptional}},
                std::move(more));
}

std::vector<FixedField> grouped_query_fixed(std::vector<FixedField> more) {
  constexpr bool kWritten = true;
  return joined({{"hidden_act", "silu", "another activation is", kWritten},
                 {"attention_bias", false, "a bias in attention is", kWritten},
                 {"attention_dropout", 0.0, "dropout is", kWritten},
                 {"sliding_window", nullptr, "a sliding window is"},
                 {"use_sliding_window", false, "a sliding window is"},
                 {"partial_rotary_factor", 1.0, "a rotation of a part of each head is"}},
                std::move(more));
}

RopeScaling llama3_rope_scaling() {
  return {.type = "llama3",
          .sizes = {{"factor", "rope_scaling_factor"},
                    {"low_freq_factor", "rope_low_freq_factor"},
                    {"high_freq_factor", "rope_high_freq_factor"},
                    {"original_max_position_embeddings", "rope_original_max_seq_len"}}};
}

void refuse_load_bias(const FieldValues& sizes, const char* architecture) {
  if (sizes.contains("load_balance_coeff"))
    throw Error(
        ExitCode::checkpoint,
        fmt::format("this model has no Hugging Face form: no bias balances the load of {} of transformers; "
                    "train with model.load_balance_coeff = 0 and balance by "
                    "model.sequence_balance_coeff",
                    architecture));
}

void read_grouped_query_rest(FieldsReader& reader, FieldValues& sizes) {
  if (!sizes.contains("n_kv_heads") && sizes.contains("n_heads")) sizes["n_kv_heads"] = sizes["n_heads"];
  reader.take("max_window_layers");  // concerns a window, which these models do not have
  const std::optional<JsonView> types = reader.take("layer_types");
  if (!types) return;
  for (const JsonView& type : types->raw().is_array() ? types->items() : std::vector{*types})
    if (type.raw() != "full_attention")
      return type.refuse("not in this version; the only value is \"full_attention\"");
}

}  // namespace rondo::hugging_face

#include "trainer/hugging_face/llama_config.h"

#include <array>

#include "models/llama3_config.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

struct SizeName {
  const char* theirs;
  const char* ours;
  bool required;
};

constexpr std::array kSizes = {
    SizeName{"hidden_size", "dim", true},
    SizeName{"num_hidden_layers", "n_layers", true},
    SizeName{"num_attention_heads", "n_heads", true},
    SizeName{"num_key_value_heads", "n_kv_heads", false},
    SizeName{"head_dim", "head_dim", false},
    SizeName{"intermediate_size", "ffn_hidden_dim", true},
    SizeName{"vocab_size", "vocab_size", true},
    SizeName{"rms_norm_eps", "norm_eps", false},
    SizeName{"max_position_embeddings", "max_seq_len", false},
    SizeName{"tie_word_embeddings", "tie_embeddings", false},
};

constexpr std::array kRopeSizes = {
    SizeName{"factor", "rope_scaling_factor", true},
    SizeName{"low_freq_factor", "rope_low_freq_factor", true},
    SizeName{"high_freq_factor", "rope_high_freq_factor", true},
    SizeName{"original_max_position_embeddings", "rope_original_max_seq_len", true},
};

std::string their_name(const std::string& ours) {
  for (const SizeName& size : kSizes)
    if (size.ours == ours) return size.theirs;
  for (const SizeName& size : kRopeSizes)
    if (size.ours == ours) return size.theirs;
  return "model." + ours;
}

// An object {"rope_type": ...}: `name` is rope_scaling (transformers 4) or rope_parameters (5).
void read_rope(const std::string& name, const Json& rope, const Fields& fields, FieldValues& sizes,
               FieldsReader& reader, std::vector<std::string>& problems) {
  if (!rope.is_object()) return reader.fail(name, rope, "must be an object");
  FieldsReader inner(rope, problems, name + ".");
  inner.take_size("rope_theta", fields, "rope_theta", sizes);
  const Json* older = inner.take("type");
  const Json* type = inner.take("rope_type");
  if (type == nullptr) type = older;
  if (type == nullptr) {
    inner.require("rope_type");
  } else if (*type == "llama3") {
    for (const SizeName& size : kRopeSizes)
      if (inner.require(size.theirs) != nullptr) inner.take_size(size.theirs, fields, size.ours, sizes);
  } else if (*type != "default") {
    return inner.fail("rope_type", *type, "not in this version; default and llama3 are");
  }
  inner.take_only("partial_rotary_factor", 1.0, "a rotation of a part of each head is");
  // Any of them might change the frequencies.
  for (const std::string& unknown : inner.unknown())
    inner.fail(unknown, rope.at(unknown), "no field of this rope_type");
}

void read_all_rope(const Fields& fields, FieldValues& sizes, FieldsReader& reader,
                   std::vector<std::string>& problems) {
  sizes["rope_theta"] = 10000.0;  // where the file does not say, as in transformers
  sizes["rope_scaling_factor"] = 1.0;
  reader.take_size("rope_theta", fields, "rope_theta", sizes);
  const Json* scaling = reader.take("rope_scaling");
  const Json* parameters = reader.take("rope_parameters");
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters)
    return reader.fail("rope_scaling", *scaling, "says something else than rope_parameters; keep one");
  if (parameters != nullptr)
    read_rope("rope_parameters", *parameters, fields, sizes, reader, problems);
  else if (scaling != nullptr)
    read_rope("rope_scaling", *scaling, fields, sizes, reader, problems);
}

void refuse_features(FieldsReader& reader) {
  reader.take_only("hidden_act", "silu", "another activation is");
  reader.take_only("attention_bias", false, "a bias in attention is");
  reader.take_only("mlp_bias", false, "a bias in the feed-forward is");
  reader.take_only("attention_dropout", 0.0, "dropout is");
  reader.take_only("sliding_window", nullptr, "a sliding window is");
  reader.take_only("use_sliding_window", false, "a sliding window is");
  reader.take_only("partial_rotary_factor", 1.0, "a rotation of a part of each head is");
  reader.take_only("add_cross_attention", false, "cross attention is");
  reader.take_only("is_encoder_decoder", false, "an encoder is");
  if (const Json* types = reader.take("layer_types"))
    for (const Json& type : types->is_array() ? *types : Json::array({*types}))
      if (type != "full_attention")
        return reader.fail("layer_types", type, "not in this version; the only value is \"full_attention\"");
}

}  // namespace

FieldValues read_llama(FieldsReader& reader, std::vector<std::string>& problems) {
  const Fields& fields = Llama3Config::fields();
  const std::size_t before = problems.size();
  FieldValues sizes = {{"norm_eps", 1e-6}, {"max_seq_len", std::int64_t{2048}}, {"tie_embeddings", false}};
  for (const SizeName& size : kSizes) {
    if (size.required && reader.require(size.theirs) == nullptr) continue;
    reader.take_size(size.theirs, fields, size.ours, sizes);
  }
  if (!sizes.contains("n_kv_heads") && sizes.contains("n_heads")) sizes["n_kv_heads"] = sizes["n_heads"];
  read_all_rope(fields, sizes, reader, problems);
  refuse_features(reader);
  if (problems.size() == before)
    for (const SizeProblem& problem : from_values<Llama3Config>(sizes).problems()) {
      const std::string& blamed = problem.keys.front();
      problems.push_back(their_name(blamed) + " = " + to_toml(sizes[blamed]) + ": " + problem.rule);
    }
  return sizes;
}

Json write_llama(const FieldValues& sizes) {
  const auto c = from_values<Llama3Config>(sizes);
  Json scaling;
  if (c.rope_scaling_factor != 1.0)
    scaling = {{"rope_type", "llama3"},
               {"factor", c.rope_scaling_factor},
               {"low_freq_factor", c.rope_low_freq_factor},
               {"high_freq_factor", c.rope_high_freq_factor},
               {"original_max_position_embeddings", c.rope_original_max_seq_len}};
  return {{"architectures", Json::array({"LlamaForCausalLM"})},
          {"model_type", "llama"},
          {"hidden_size", c.dim},
          {"num_hidden_layers", c.n_layers},
          {"num_attention_heads", c.n_heads},
          {"num_key_value_heads", c.n_kv_heads},
          {"head_dim", c.head_width()},
          {"intermediate_size", c.ffn_width()},
          {"vocab_size", c.vocab_size},
          {"rms_norm_eps", c.norm_eps},
          {"max_position_embeddings", c.max_seq_len},
          {"tie_word_embeddings", c.tie_embeddings},
          {"rope_theta", c.rope_theta},
          {"rope_scaling", scaling},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"mlp_bias", false}};
}

}  // namespace rondo::hugging_face

// config.json of a Hugging Face folder, read into the sizes of one of our models and written from them. Plain
// data, thread-safe. What a model's file holds stands in its tables: models/hugging_face/model_type.h.
//
// A field is one of: a size of the model; a switch for a feature that the model here has not, which must be
// off; known to change no number (a list); or unknown, which is a warning. Files of transformers 4
// (rope_theta, rope_scaling, torch_dtype) and 5 (rope_parameters, dtype) are read; what is written is
// transformers 4's form, which transformers 5 and other readers take too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"

namespace rondo::hugging_face {

struct TokenIds {
  std::optional<std::int64_t> bos, pad;
  std::vector<std::int64_t> eos;  // each ends a text
  bool operator==(const TokenIds&) const = default;
};

struct ModelConfig {
  std::string model;  // our model.name: "llama3"
  FieldValues sizes;  // of the model's struct, in its ranges and obeying its rules
  std::string dtype;  // "float32", "float16" or "bfloat16"; "" where the file does not say
  TokenIds tokens;
};

// What matrices may be in besides numbers: fp8_blocks.h, mxfp4_blocks.h.
enum class Quantization : std::uint8_t { none, fp8, mxfp4 };

struct ReadConfig {
  ModelConfig config;
  Quantization quantization = Quantization::none;
  std::vector<std::string> passed_over;  // prefixes of tensors that are no part of the model here
  std::string prefix;                    // before the names of those that are
  std::vector<std::string> warnings;  // "FILE: field: ...": what nobody here knows, and what is passed over
};

// Throws Error(checkpoint) with all problems, a line for each: file, field, value and rule.
ReadConfig parse_config(std::string_view text, const std::string& file);
ReadConfig read_config(const std::filesystem::path& file);

// Why transformers has no model of these sizes, in words; "" where it has one. REQUIRES as config_json().
std::string why_not_exported(const std::string& model, const FieldValues& sizes);

// Texts of config.json and generation_config.json. REQUIRES a model that is exported, and sizes that obey its
// rules. bos and eos are written even where unknown (null): transformers would assume 1 and 2.
std::string config_json(const ModelConfig& config);
std::string generation_config_json(const TokenIds& tokens);

}  // namespace rondo::hugging_face

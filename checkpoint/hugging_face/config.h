// Reads config.json of a Hugging Face folder into the sizes of a model, and writes it. Plain data,
// thread-safe. The fields of each model are in its tables: models/hugging_face/model_type.h.
//
// A field is one of: a size of the model; a switch for a feature that this program lacks, which
// must be off; a field that changes no number (a list); or unknown, which is a warning. Reads the
// forms of transformers 4 (rope_theta, rope_scaling, torch_dtype) and 5 (rope_parameters, dtype).
// Writes the form of transformers 4, which transformers 5 and other readers accept.
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
  std::vector<std::int64_t> eos;  // each of them ends a text
  bool operator==(const TokenIds&) const = default;
};

struct ModelConfig {
  std::string model;  // model.name of this program: "llama3"
  FieldValues sizes;  // fields of the model's struct, valid by its ranges and rules
  std::string dtype;  // "": not in the file
  TokenIds tokens;
};

// Quantized formats of matrices: fp8_blocks.h, mxfp4_blocks.h.
enum class Quantization : std::uint8_t { none, fp8, mxfp4 };

struct ReadConfig {
  ModelConfig config;
  Quantization quantization = Quantization::none;
  std::vector<std::string> passed_over;  // prefixes of tensors that do not belong to the model
  std::string prefix;                    // prefix of the names of the model's tensors
  std::vector<std::string> warnings;     // "FILE: field: ...": unknown fields, and what is not read
};

// Reads the text of a config.json. Throws Error(checkpoint) with all problems, one per line: file,
// field, value and rule.
ReadConfig parse_config(std::string_view text, const std::string& file);
ReadConfig read_config(const std::filesystem::path& file);

// Returns why transformers has no model of these sizes, or "" if it has. REQUIRES:
// as config_json().
std::string why_not_exported(const std::string& model, const FieldValues& sizes);

// Return the texts of config.json and generation_config.json. REQUIRES: the model has a Hugging
// Face form, and the sizes obey its rules. bos and eos are written even if unknown (null), since
// transformers would assume 1 and 2.
std::string config_json(const ModelConfig& config);
std::string generation_config_json(const TokenIds& tokens);

}  // namespace rondo::hugging_face

// Models under transformers' names: tables of the fields of a config.json, and functions that read
// and write such a file by these tables. Thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/hugging_face/fields_reader.h"
#include "models/parts/model_spec.h"
#include "support/fields.h"

namespace rondo::hugging_face {

struct SizeName {
  const char* theirs;
  const char* ours;
  bool required = true;  // must be in a file
};

// A field with only one supported value. Absent and null mean this value.
struct FixedField {
  const char* name;
  nlohmann::json only;
  const char* others;  // subject of the message for other values: "a bias in attention is"
  bool written = false;
};

// The rotary scaling that a model supports in addition to "default". Such a model has the size
// rope_scaling_factor, which is 1 without scaling. Every model has rope_theta.
struct RopeScaling {
  const char* type = nullptr;  // "llama3"
  std::vector<SizeName> sizes = {};
  void (*read_rest)(FieldsReader&) = nullptr;  // reads the object's other fields
};

// A multimodal model whose text part is a model here. "text_config" holds the fields of the
// text part.
struct Multimodal {
  const char* name = nullptr;  // its "model_type"; nullptr: no multimodal model
  const char* architecture = nullptr;
  const char* prefix = "";               // prefix of the text part's tensors
  std::vector<const char*> others = {};  // prefixes of other parts' tensors
  std::vector<const char*> fields = {};  // fields of other parts
};

struct ModelType {
  const char* name;                           // config.json's "model_type"
  std::vector<const char*> other_names = {};  // other "model_type" values of the same model
  Multimodal multimodal = {};
  const char* architecture;  // the only entry of "architectures"
  FieldValues defaults;      // sizes that files omit, always or sometimes
  std::vector<SizeName> sizes;
  RopeScaling rope_scaling = {};
  std::vector<FixedField> fixed;
  // Handle what the tables do not cover. read_rest runs last and may complete the sizes.
  void (*read_rest)(FieldsReader&, FieldValues& sizes) = nullptr;
  // Throws Error(checkpoint) for a model that transformers does not support.
  void (*write_rest)(const FieldValues& sizes, nlohmann::json& config) = nullptr;
};

// Return the fields that models with grouped-query attention share.
std::vector<SizeName> grouped_query_names(std::vector<SizeName> more = {});
std::vector<FixedField> grouped_query_fixed(std::vector<FixedField> more = {});
// Returns Llama 3.1's scaling, for models with WavelengthSizes (models/parts/rotary_sizes.h).
RopeScaling llama3_rope_scaling();
// Throws if a bias balances the load of experts, which transformers' `architecture` does
// not support.
void refuse_load_bias(const FieldValues& sizes, const char* architecture);
// Defaults the number of key heads to the number of query heads. Accepts only attention without a
// window, in all layers.
void read_grouped_query_rest(FieldsReader& reader, FieldValues& sizes);

// Reads the sizes and reports problems to the reader. The values are valid only without problems.
FieldValues read_sizes(const ModelSpec& model, FieldsReader& reader);

// Returns the fields that identify the model. Throws Error(checkpoint) for a model that
// transformers does not support.
nlohmann::json write_sizes(const ModelSpec& model, const FieldValues& sizes);

}  // namespace rondo::hugging_face

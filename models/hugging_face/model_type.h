// A model under the names that transformers gives it: tables of what its config.json holds, and how such a
// file is read and written by them. Thread-safe.
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
  bool required = true;  // in a file
};

// A field with one value that the model here has. Absent and null mean it.
struct FixedField {
  const char* name;
  nlohmann::json only;
  const char* others;  // what any other value asks for, in a message: "a bias in attention is"
  bool written = false;
};

// The scaling of rotary frequencies that a model knows besides "default"; such a model has the size
// rope_scaling_factor, which is 1 where there is none. Every model has rope_theta.
struct RopeScaling {
  const char* type = nullptr;  // "llama3"
  std::vector<SizeName> sizes = {};
  void (*read_rest)(FieldsReader&) = nullptr;  // what else such an object may hold
};

// A model of texts and other things, one part of which is a model here: that part's fields are its
// "text_config".
struct Multimodal {
  const char* name = nullptr;  // of its "model_type"; there is none
  const char* architecture = nullptr;
  const char* prefix = "";               // before the names of the part's tensors
  std::vector<const char*> others = {};  // before those of other parts
  std::vector<const char*> fields = {};  // of other parts
};

struct ModelType {
  const char* name;                           // of config.json's "model_type"
  std::vector<const char*> other_names = {};  // under which files have the same model
  Multimodal multimodal = {};
  const char* architecture;  // the one of "architectures"
  FieldValues defaults;      // sizes that no file says, or not every file
  std::vector<SizeName> sizes;
  RopeScaling rope_scaling = {};
  std::vector<FixedField> fixed;
  // What the tables do not say. Reading comes last and may complete the sizes.
  void (*read_rest)(FieldsReader&, FieldValues& sizes) = nullptr;
  // Throws Error(checkpoint) for a model that transformers has not.
  void (*write_rest)(const FieldValues& sizes, nlohmann::json& config) = nullptr;
};

// What models with grouped queries share.
std::vector<SizeName> grouped_query_names(std::vector<SizeName> more = {});
std::vector<FixedField> grouped_query_fixed(std::vector<FixedField> more = {});
// Llama 3.1's, of models with WavelengthSizes (models/parts/rotary_sizes.h).
RopeScaling llama3_rope_scaling();
// Throws where a bias balances the load of experts, which `architecture` of transformers has not.
void refuse_load_bias(const FieldValues& sizes, const char* architecture);
// As many heads of keys as of queries where the file does not say; attention without a window in all layers.
void read_grouped_query_rest(FieldsReader& reader, FieldValues& sizes);

// Problems go to the reader; the values are good only where there are none.
FieldValues read_sizes(const ModelSpec& model, FieldsReader& reader);

// The fields that say what the model is. Throws Error(checkpoint) for a model that transformers has not.
nlohmann::json write_sizes(const ModelSpec& model, const FieldValues& sizes);

}  // namespace rondo::hugging_face

// What is known of a model without LibTorch: the fields of its sizes, the values of its flavors (TOML text
// embedded in the program), the rules between the fields, its parameters, and its form at Hugging Face.
// Nothing of any one model, so that the trainer's configuration knows none: the list of models is
// models/models.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/parts/parameter_table.h"
#include "ops/attention/attention_mask.h"
#include "support/fields.h"

namespace rondo::hugging_face {
struct ModelType;  // models/hugging_face/model_type.h
}

namespace rondo {

class Decoder;  // models/parts/decoder.h, in the LibTorch half

// A rule between fields that does not hold. `keys`: the fields involved, the one to blame first.
struct SizeProblem {
  std::vector<std::string> keys;
  std::string rule;  // with the arithmetic: "must be a multiple of ..."
};

// "32 = 3 * 10 + 2", for the rule that a size does not divide another.
std::string division(std::int64_t whole, std::int64_t by);

// A size that ranks divide among themselves, each a whole number of it.
struct SharedSize {
  std::string key;  // "n_kv_heads"
  std::int64_t size = 0;
};
struct SharedSizes {
  std::vector<SharedSize> layers;              // by ranks that share each layer
  std::vector<SharedSize> experts;             // by ranks that share the experts; empty: the model has none
  std::vector<SharedSize> expert_widths = {};  // by ranks that share each expert
};

struct Flavor {
  std::string name;       // "8B"
  std::string_view toml;  // `field = value` lines
};

struct ModelSpec {
  std::string name;  // the value of model.name
  const Fields* fields;
  std::vector<Flavor> flavors;
  std::vector<SizeProblem> (*problems)(const FieldValues&);
  SharedSizes (*shared)(const FieldValues&);
  std::vector<ParameterRule> (*parameters)(const FieldValues&);
  std::vector<AttentionMask> (*masks)(const FieldValues&);  // of the layers
  FieldValues (*plain)(const FieldValues&);                 // equal for two runs' sizes that are of one model
  FieldValues (*for_rows)(const FieldValues&, std::int64_t longest);  // see models/models.h
  FieldValues (*small)(const FieldValues&);  // the same parts, in sizes that a proof runs in a second
  const hugging_face::ModelType* hugging_face_type;
};

// In the order of models/models.h.
const std::vector<ModelSpec>& model_specs();

// nullptr where there is no model of that name.
const ModelSpec* find_model_spec(std::string_view name);

}  // namespace rondo

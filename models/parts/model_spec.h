// The LibTorch-free view of a model: the fields of its sizes, the values of its flavors (TOML text
// embedded in the program), the rules between fields, its parameters, and its form at Hugging Face.
// This file names no model, so the trainer's configuration depends on none. models/models.h lists
// the models.
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

// A violated rule between fields. `keys`: the fields involved, the one to blame first.
struct SizeProblem {
  std::vector<std::string> keys;
  std::string rule;  // with the arithmetic: "must be a multiple of ..."
};

// Returns text such as "32 = 3 * 10 + 2", for a size that does not divide another.
std::string division(std::int64_t whole, std::int64_t by);

// A size that ranks divide into equal whole parts.
struct SharedSize {
  std::string key;  // "n_kv_heads"
  std::int64_t size = 0;
};
struct SharedSizes {
  std::vector<SharedSize> layers;  // divided by ranks that share each layer
  // Divided by ranks that share the experts; empty: no experts.
  std::vector<SharedSize> experts;
  std::vector<SharedSize> expert_widths = {};  // divided by ranks that share each expert
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
  std::vector<AttentionMask> (*masks)(const FieldValues&);  // one per layer
  // Equal for sizes that describe the same model.
  FieldValues (*plain)(const FieldValues&);
  FieldValues (*for_rows)(const FieldValues&, std::int64_t longest);  // see models/models.h
  FieldValues (*small)(const FieldValues&);  // the same architecture, in sizes for a quick test
  const hugging_face::ModelType* hugging_face_type;
};

// Returns the specs in the order of models/models.h.
const std::vector<ModelSpec>& model_specs();

// Returns nullptr if there is no model of that name.
const ModelSpec* find_model_spec(std::string_view name);

}  // namespace rondo

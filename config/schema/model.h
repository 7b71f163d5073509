// The [model] section and the conversions of its layers. model.cpp has the meaning of each key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/float8/float8_recipe.h"
#include "support/fields.h"

namespace rondo {

struct Model {
  std::string name = "llama3", flavor = "debugmodel";
  std::string hf_assets_path;  // "": none
  std::string hf_config;       // "" once the sizes are read from it
  std::vector<std::string> converters;
  // Sizes of the model by key: the flavor's, with overrides applied. `from_values<C>` reads them.
  FieldValues sizes;
  // Linear layers, to float8, MXFP8 or NVFP4, and products of experts.
  bool converts_to_float8() const;
  bool converts_to_mx() const;
  bool converts_to_nvfp4() const;
  bool converts_experts_to_float8() const;
  bool converts_experts_to_mx() const;
  static const Fields& fields();  // without the sizes, whose fields belong to the model
};

struct Float8Linear {
  std::optional<Float8Recipe> recipe_name;  // unset: tensorwise
  std::vector<std::string> filter_fqns;
  bool enable_fsdp_float8_all_gather = true;
  bool emulate = false;
  static const Fields& fields();
};

struct MxLinear {
  std::string recipe_name = "mxfp8_cublas";  // checked with the converter only
  std::vector<std::string> filter_fqns = {"output"};
  bool emulate = false;
  static const Fields& fields();
};

struct Nvfp4Linear {
  std::vector<std::string> filter_fqns = {"output"};
  bool emulate = false;
  static const Fields& fields();
};

struct Float8Experts {
  std::optional<Float8Recipe> recipe_name;  // unset: rowwise_with_gw_hp
  std::vector<std::string> fqns;
  bool emulate = false;
  static const Fields& fields();
};

struct MxExperts {
  std::string recipe_name = "mxfp8";  // checked with the converter only
  std::vector<std::string> fqns;
  bool emulate = false;
  static const Fields& fields();
};

}  // namespace rondo

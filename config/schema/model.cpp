#include "config/schema/model.h"

#include <algorithm>

#include "config/schema/value_checks.h"

namespace rondo {

const Fields& Model::fields() {
  static const Fields list = {
      field("name", &Model::name, "the model"),
      field("flavor", &Model::flavor,
            "preset of model sizes; each size can be overridden by its own key. Empty: own sizes"),
      field("hf_config", &Model::hf_config,
            "Hugging Face config.json, or its folder: sets the model and its sizes, instead of model.flavor"),
      field("hf_assets_path", &Model::hf_assets_path,
            "Hugging Face folder of this model: the tokenizer, and the weights for "
            "checkpoint.initial_load_in_hf"),
      field("converters", &Model::converters,
            "float8, or quantize.linear.float8: compute linear layers in float8, as set in "
            "[quantize.linear.float8]; quantize.linear.mx: compute them in MXFP8, as set in "
            "[quantize.linear.mx]; quantize.linear.nvfp4: compute them in NVFP4, as set in "
            "[quantize.linear.nvfp4]; quantize.grouped_mm.float8: compute products of experts in float8, as "
            "set in [quantize.grouped_mm.float8]; quantize.grouped_mm.mx: compute them in MXFP8, as set in "
            "[quantize.grouped_mm.mx]",
            {.check = known_converters}),
  };
  return list;
}

namespace {

bool has(const Model& model, const char* converter) {
  const std::vector<std::string>& names = model.converters;
  return std::find(names.begin(), names.end(), converter) != names.end();
}

}  // namespace

bool Model::converts_to_float8() const {
  return has(*this, "float8") || has(*this, "quantize.linear.float8");
}
bool Model::converts_to_mx() const { return has(*this, "quantize.linear.mx"); }
bool Model::converts_to_nvfp4() const { return has(*this, "quantize.linear.nvfp4"); }
bool Model::converts_experts_to_float8() const { return has(*this, "quantize.grouped_mm.float8"); }
bool Model::converts_experts_to_mx() const { return has(*this, "quantize.grouped_mm.mx"); }

const Fields& Float8Linear::fields() {
  static const Fields list = {
      field("recipe_name", &Float8Linear::recipe_name,
            "elements that share a scale: tensorwise: a whole matrix; rowwise: a row; rowwise_with_gw_hp: a "
            "row, with weight gradients computed in training.mixed_precision_param; blockwise: 1 x 128 of "
            "activations and 128 x 128 of weights; not set: tensorwise",
            {.allowed = names_of({Float8Recipe::tensorwise, Float8Recipe::rowwise,
                                  Float8Recipe::rowwise_with_gw_hp, Float8Recipe::blockwise})}),
      field("filter_fqns", &Float8Linear::filter_fqns,
            "substrings of the names of modules that keep their precision, such as output; "
            "auto_filter_small_kn: also layers too small to be faster in float8"),
      field(
          "enable_fsdp_float8_all_gather", &Float8Linear::enable_fsdp_float8_all_gather,
          "quantize the shards of weights before they are gathered, where that changes no bit; the maxima of "
          "all weights are one all-reduce; needs compile.enable"),
      field("emulate", &Float8Linear::emulate,
            "emulate float8 products in float32: for CPUs, and GPUs without float8"),
  };
  return list;
}

const Fields& MxLinear::fields() {
  static const Fields list = {
      field("recipe_name", &MxLinear::recipe_name,
            "the format; only mxfp8_cublas: MXFP8, a scale per 1 x 32 of every operand"),
      field("filter_fqns", &MxLinear::filter_fqns,
            "substrings of the names of modules that keep their precision"),
      field("emulate", &MxLinear::emulate, "emulate MXFP8 products in float32: needed on every device"),
  };
  return list;
}

const Fields& Nvfp4Linear::fields() {
  static const Fields list = {
      field("filter_fqns", &Nvfp4Linear::filter_fqns,
            "substrings of the names of modules that keep their precision"),
      field("emulate", &Nvfp4Linear::emulate, "emulate NVFP4 products in float32: needed on every device"),
  };
  return list;
}

const Fields& Float8Experts::fields() {
  static const Fields list = {
      field("recipe_name", &Float8Experts::recipe_name,
            "elements that share a scale: rowwise_with_gw_hp: a row, with weight gradients computed in "
            "training.mixed_precision_param; rowwise: a row, with weight gradients computed in float8; "
            "blockwise: 1 x 128 of tokens and 128 x 128 of weights; not set: rowwise_with_gw_hp",
            {.allowed = names_of(
                 {Float8Recipe::rowwise, Float8Recipe::rowwise_with_gw_hp, Float8Recipe::blockwise})}),
      field("fqns", &Float8Experts::fqns,
            "substrings of the names of modules whose experts are computed in float8, such as experts"),
      field("emulate", &Float8Experts::emulate,
            "emulate grouped products of float8 in float32: for CPUs, GPUs other than Hopper, rowwise and "
            "blockwise"),
  };
  return list;
}

const Fields& MxExperts::fields() {
  static const Fields list = {
      field("recipe_name", &MxExperts::recipe_name,
            "the format; only mxfp8: MXFP8, a scale per 1 x 32 of every operand"),
      field("fqns", &MxExperts::fqns,
            "substrings of the names of modules whose experts are computed in MXFP8, such as experts"),
      field("emulate", &MxExperts::emulate,
            "emulate grouped products of MXFP8 in float32: needed on every device"),
  };
  return list;
}

}  // namespace rondo

#include "config/schema/model.h"

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
            "float8: compute linear layers in float8, as set in [quantize.linear.float8]",
            {.check = known_converters}),
  };
  return list;
}

const Fields& Float8Linear::fields() {
  static const Fields list = {
      field("recipe_name", &Float8Linear::recipe_name,
            "elements that share a scale: tensorwise: a whole matrix; rowwise: a row; rowwise_with_gw_hp: a "
            "row, with weight gradients computed in training.mixed_precision_param; blockwise: 1 x 128 of "
            "activations and 128 x 128 of weights; not set: tensorwise"),
      field("filter_fqns", &Float8Linear::filter_fqns,
            "substrings of the names of modules that keep their precision, such as output; "
            "auto_filter_small_kn: also layers too small to be faster in float8"),
      field("emulate", &Float8Linear::emulate,
            "emulate float8 products in float32: for CPUs, and GPUs without float8"),
  };
  return list;
}

}  // namespace rondo

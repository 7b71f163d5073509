// Linear layers and products of experts that are computed in float8: torchtitan's model.converters,
// quantize.linear.float8, quantize.linear.mx, quantize.linear.nvfp4, quantize.grouped_mm.float8 and
// quantize.grouped_mm.mx. The choice depends on the model's sizes only, not on how ranks divide
// them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"
#include "ops/float8/float8_recipe.h"

namespace rondo {

// Returns the options of linear layers, and of experts; nullopt without their converter.
std::optional<Float8Options> float8_options(const JobConfig& config);
std::optional<Float8Options> float8_expert_options(const JobConfig& config);
// Returns "blockwise" or "rowwise, emulated".
std::string in_words(const Float8Options& options);
// Returns the section of the linear layers' options: "quantize.linear.mx", "quantize.linear.nvfp4"
// or "quantize.linear.float8".
std::string float8_section(const JobConfig& config);
// Returns that of experts: "quantize.grouped_mm.mx" or "quantize.grouped_mm.float8".
std::string float8_expert_section(const JobConfig& config);
// Returns the names of the weights of these layers. Leaves out modules named by filter_fqns, sizes
// that are not multiples of float8_granule and, with auto_filter_small_kn, layers for which float8
// is not faster.
std::set<std::string> float8_weights(const JobConfig& config);
// Returns the options of each weight of a linear layer or of experts that is computed in float8, by
// its name. Their streams are not set.
std::map<std::string, Float8Options> float8_parameters(const JobConfig& config);
// Returns the number of linear layers and of products of experts in float8, by "linear_layers" and
// "experts". Omits a kind whose converter is not set.
std::map<std::string, std::size_t> float8_products(const JobConfig& config);
// Returns the rules that float8 breaks: parts of weights or tokens that are not multiples of
// float8_granule, no layer left, two recipes for one kind of product, or a name that names no
// module or no experts. Names in quantize.linear.float8.filter_fqns may name no module
// (float8_warnings).
std::vector<BrokenRule> broken_float8(const JobConfig& config, const ShareDegrees& degrees);
// Returns "float8: blockwise, 28 of 29 linear layers; not output (named by
// quantize.linear.float8.filter_fqns)", or "" without float8.
std::string float8_summary(const JobConfig& config);
// Returns "float8: rowwise_with_gw_hp, 15 of 18 products of experts; not layers.1.moe.experts.w1,
// layers.1.moe.experts.w2, layers.1.moe.experts.w3 (not named by quantize.grouped_mm.float8.fqns)",
// or "" without float8 for experts.
std::string float8_expert_summary(const JobConfig& config);
// Returns a line for each name in quantize.linear.float8.filter_fqns that names no module. Lists of
// torchtitan may have names of other models, so they are not refused.
std::vector<std::string> float8_warnings(const JobConfig& config);

}  // namespace rondo

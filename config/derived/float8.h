// Linear layers that are computed in float8: torchtitan's model.converters and
// quantize.linear.float8. The choice depends on the model's sizes only, not on how ranks divide
// them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"
#include "ops/float8/float8_recipe.h"

namespace rondo {

// Returns the options, or nullopt without a float8 converter.
std::optional<Float8Options> float8_options(const JobConfig& config);
// Returns "blockwise" or "rowwise, emulated".
std::string in_words(const Float8Options& options);
// Returns the names of the weights of these layers. Leaves out modules named by
// quantize.linear.float8.filter_fqns, sizes that are not multiples of float8_granule and, with
// auto_filter_small_kn, layers for which float8 is not faster.
std::set<std::string> float8_weights(const JobConfig& config);
// Returns the rules that float8 breaks: parts of weights or tokens that are not multiples of
// float8_granule, or no layer left.
std::vector<BrokenRule> broken_float8(const JobConfig& config, const ShareDegrees& degrees);
// Returns "float8: blockwise, 28 of 29 linear layers; not output (named by
// quantize.linear.float8.filter_fqns)", or "" without float8.
std::string float8_summary(const JobConfig& config);

}  // namespace rondo

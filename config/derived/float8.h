// Linear layers whose products are of float8: torchtitan's model.converters and quantize.linear.float8. Which
// they are depends on the model's sizes alone, and not on how ranks divide them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"
#include "ops/float8/float8_recipe.h"

namespace rondo {

// Absent where no converter asks for it.
std::optional<Float8Options> float8_options(const JobConfig& config);
// "blockwise", "rowwise, emulated"
std::string in_words(const Float8Options& options);
// The weights of these layers by name. Not those whose module quantize.linear.float8.filter_fqns names, whose
// sizes are no multiples of float8_granule or, with auto_filter_small_kn, for which float8 is not faster.
std::set<std::string> float8_weights(const JobConfig& config);
// What no rank can do in float8: parts of weights, or tokens, that are no multiples of float8_granule; or
// that no layer is left.
std::vector<BrokenRule> broken_float8(const JobConfig& config, const ShareDegrees& degrees);
// "float8: blockwise, 28 of 29 linear layers; not output (named by quantize.linear.float8.filter_fqns)", or
// "" without float8.
std::string float8_summary(const JobConfig& config);

}  // namespace rondo

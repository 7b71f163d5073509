// What `rondo convert` does before LibTorch is loaded: help and flags.
#include "apps/commands.h"
#include "apps/convert_options.h"

namespace rondo {

bool before_convert(const Arguments& args) { return read_convert_options(args).has_value(); }

}  // namespace rondo

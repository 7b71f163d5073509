// The subcommands of `rondo data`, one source file each (see apps/commands.h).
#pragma once

#include "apps/commands.h"

namespace rondo {

int run_data_tokenize(const Arguments& args);
int run_data_inspect(const Arguments& args);

}  // namespace rondo

// The manual page of rondo, made of what its commands and the configuration declare.
#pragma once

#include <string>
#include <vector>

#include "support/flags/flags.h"

namespace rondo {

// In man(7)'s macros: a part for each command, then one for each section of the configuration.
std::string manual_page(const std::vector<CommandSpec>& commands);

}  // namespace rondo

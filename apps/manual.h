// The manual page of rondo, generated from its commands and the configuration's keys.
#pragma once

#include <string>
#include <vector>

#include "support/flags/flags.h"

namespace rondo {

// Returns man(7) source: a part per command, then one per section of the configuration.
std::string manual_page(const std::vector<CommandSpec>& commands);

}  // namespace rondo

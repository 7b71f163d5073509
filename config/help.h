// The pages of `rondo help`, made of the lists of fields.
#pragma once

#include <string>

namespace rondo {

// "": all sections. "training": its keys. "training.steps": type, default, range, unit and meaning.
// Error(ExitCode::usage) for any other topic.
std::string help_page(const std::string& topic);

}  // namespace rondo

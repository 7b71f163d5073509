// The pages of `rondo help`, generated from the lists of fields.
#pragma once

#include <string>

namespace rondo {

// Returns the page of a topic. "": all sections. "training": its keys. "training.steps": type,
// default, range, unit and meaning. Throws Error(usage) for any other topic.
std::string help_page(const std::string& topic);

}  // namespace rondo

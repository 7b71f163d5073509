// The JSON schema of configuration files (draft 2020-12), made of the lists of fields: for editors, and for
// programs that write configurations.
#pragma once

#include <string>

namespace rondo {

// Types, defaults, ranges, allowed values and meanings of all keys; torchtitan's keys for what is missing,
// with the one value that is accepted. Sizes of models have their types alone, as models share names. What it
// accepts may still break a rule between keys.
std::string json_schema();

}  // namespace rondo

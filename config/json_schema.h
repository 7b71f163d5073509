// The JSON schema of configuration files (draft 2020-12), generated from the lists of fields, for
// editors and programs that write configurations.
#pragma once

#include <string>

namespace rondo {

// Returns the schema: types, defaults, ranges, allowed values and meanings of all keys, and
// torchtitan's refused keys with their only accepted value. Sizes of models have only a type, as
// models share names. A file that matches may still break a rule between keys.
std::string json_schema();

}  // namespace rondo

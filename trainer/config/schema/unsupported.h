// The keys of torchtitan v0.2.2 for features that this version lacks. They are accepted at their off value,
// and any other value is an error that names the feature; so torchtitan's own files either mean here what
// they mean there, or are refused. A key that torchtitan itself does not look at while the switch of its
// feature is off is accepted at any value of its type.
#pragma once

#include <string>
#include <vector>

#include "support/fields.h"

namespace rondo {

struct UnsupportedKey {
  std::string section;  // "training", "quantize.linear.float8"
  Field field;          // name, type, off value; cannot be read or set
  bool behind_switch;   // torchtitan looks at it only while a switch is on that has to be off here: any value
                        // goes
};

const std::vector<UnsupportedKey>& unsupported_keys();

}  // namespace rondo

// The keys of torchtitan v0.2.2 that Rondo does not have, each with its fate and the reason. A
// torchtitan file either means the same here, or is refused.
#pragma once

#include <string>
#include <vector>

#include "support/fields.h"

namespace rondo {

enum class Fate : std::uint8_t {
  refused,         // the feature is not in this version: only the off value is accepted
  without_effect,  // any value is accepted; no value changes a result
  behind_switch,   // any value is accepted; torchtitan reads it only with a refused feature
};

struct UnsupportedKey {
  std::string section;  // "training", "quantize.linear.float8"
  Field field;          // name, type and off value; has no getter and no setter
  Fate fate;
  std::string reason;  // "float8 is not in this version", "there is no Python here"
};

const std::vector<UnsupportedKey>& unsupported_keys();

}  // namespace rondo

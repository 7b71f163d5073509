// The keys of torchtitan v0.2.2 that are none of ours, each with what becomes of it and why, so that
// torchtitan's own files either mean here what they mean there, or are refused.
#pragma once

#include <string>
#include <vector>

#include "support/fields.h"

namespace rondo {

enum class Fate : std::uint8_t {
  refused,         // of a feature that this version lacks: only the off value is accepted
  without_effect,  // any value is accepted, and none changes a result here
  behind_switch,  // any value is accepted: torchtitan reads it only with a feature that is refused by its key
};

struct UnsupportedKey {
  std::string section;  // "training", "quantize.linear.float8"
  Field field;          // name, type, off value; cannot be read or set
  Fate fate;
  std::string reason;  // "float8 is not in this version", "there is no Python here"
};

const std::vector<UnsupportedKey>& unsupported_keys();

}  // namespace rondo

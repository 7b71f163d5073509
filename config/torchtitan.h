// Notes on what a torchtitan file does differently here, logged once at the start.
#pragma once

#include <string>
#include <vector>

#include "config/rules.h"

namespace rondo {

// torchtitan v0.2.2's default of a key whose default differs here.
struct OtherDefault {
  const char* key;
  const char* theirs;  // as TOML, or "not set"
};
const std::vector<OtherDefault>& other_defaults();

// Returns notes on keys without effect, and on differing defaults that apply. Empty unless a key
// that only torchtitan has is set.
std::vector<std::string> torchtitan_notes(const JobConfig& config, const Origins& origins);

}  // namespace rondo

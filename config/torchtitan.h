// What the user of a torchtitan file may not expect here, told once at the start.
#pragma once

#include <string>
#include <vector>

#include "config/rules.h"

namespace rondo {

// torchtitan v0.2.2's default of a key of ours that has another one here.
struct OtherDefault {
  const char* key;
  const char* theirs;  // as TOML; "not set"
};
const std::vector<OtherDefault>& other_defaults();

// Keys without effect, and defaults that differ and count. Empty unless a key of torchtitan's alone is set.
std::vector<std::string> torchtitan_notes(const JobConfig& config, const Origins& origins);

}  // namespace rondo

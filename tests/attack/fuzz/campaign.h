// Runs mutated inputs through one parser, in a process of its own, and judges each: it must be
// accepted or refused with an error of its kind, within 2 s of the processor (20 under a sanitizer)
// and 256 MiB beyond what the process had.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tests/attack/fuzz/parsers.h"

namespace rondo::attack {

struct Campaign {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;         // number of the first input; an input follows from seed and number alone
  std::uint64_t runs = 1000;       // of a parser of cost 1
  std::filesystem::path findings;  // what broke a parser is kept here
};

struct Result {
  std::uint64_t inputs = 0, accepted = 0;
  double seconds = 0, worst_ms = 0;  // `worst_ms`: of the processor, for one input
  std::uint64_t worst_input = 0;
  std::int64_t worst_bytes = 0;  // resident, beyond what the process had before its first input
  std::map<std::string, std::uint64_t> findings;  // what is wrong, and how often
  bool gave_up = false;                           // after too many findings
};

Result attack(const Parser& parser, const Campaign& campaign);

}  // namespace rondo::attack

// Philox4x32, a counter-based random generator (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011), for hosts and devices. Integer operations only, so bits are equal everywhere. No
// LibTorch.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

struct Words {
  std::uint32_t at[4];
};

// Returns the random words of a counter under a key. The paper recommends 10 rounds, and finds that
// 7 pass all tests of BigCrush.
template <int kRounds>
RONDO_DEVICE inline Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = 0xD2511F53ull * counter.at[0];
    const std::uint64_t b = 0xCD9E8D57ull * counter.at[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.at[1] ^ key0, static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.at[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace rondo

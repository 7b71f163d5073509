// Philox4x32, a counter-based random generator (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011), for hosts and devices. Integer operations only, so bits are equal everywhere. No
// LibTorch.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

struct PhiloxWords {
  std::uint32_t at[4];
};

// Returns the upper half of the product. A GPU computes it and the lower half in one instruction.
// From the portable form nvcc makes more, because it widens what follows to 64 bits.
RONDO_DEVICE inline std::uint32_t high_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b >> 32);
#endif
}

// Returns the random words of a counter under a key. The paper recommends 10 rounds, and finds that
// 7 pass all tests of BigCrush.
template <int kRounds>
RONDO_DEVICE inline PhiloxWords philox(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kA = 0xD2511F53, kB = 0xCD9E8D57;
  for (int round = 0; round < kRounds; ++round) {
    counter = {{high_product(kB, counter.at[2]) ^ counter.at[1] ^ key0, kB * counter.at[2],
                high_product(kA, counter.at[0]) ^ counter.at[3] ^ key1, kA * counter.at[0]}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace rondo

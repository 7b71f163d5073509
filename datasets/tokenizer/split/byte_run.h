// Finds the end of a run of bytes of a set, sixteen bytes at a time where the processor can.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rondo {

// A set of ASCII characters. Bit h of low[l] is set if it has the byte 16 * h + l.
struct AsciiSet {
  alignas(16) std::array<std::uint8_t, 16> low{};

  void add(unsigned char byte) { low[byte & 15] |= static_cast<std::uint8_t>(1 << (byte >> 4)); }
  bool contains(unsigned char byte) const { return byte < 0x80 && (low[byte & 15] >> (byte >> 4) & 1) != 0; }
  bool empty() const { return low == std::array<std::uint8_t, 16>{}; }
  bool operator==(const AsciiSet&) const = default;
};

// Ends of runs in the text at `begin`: bit i of `others` is set if byte i is not in the set.
struct RunWindow {
  static constexpr std::ptrdiff_t kBytes = 512, kMaxRun = 56;

  std::array<std::uint8_t, kBytes / 8> others;
  const char* begin = nullptr;
  std::ptrdiff_t runs = 0;  // length() knows the runs at bytes in [begin, begin + runs)

  // Returns whether length(p) is known, and fills the masks first if needed. REQUIRES: `p` is not
  // before `begin`.
  template <class Run>
  bool reaches(const char* p, const char* end, const AsciiSet& set) {
    if (p - begin < runs) return true;
    if constexpr (Run::kFills) {
      if (end - p < 128) return false;
      Run::fill(set, p, std::min(end - p, kBytes) / 64 * 64, *this);
      return true;
    }
    return false;
  }

  // Returns how many of the bytes at `p` are in the set before one that is not, at most kMaxRun.
  int length(const char* p) const {
    const auto at = static_cast<std::size_t>(p - begin);
    std::uint64_t bits;
    std::memcpy(&bits, others.data() + at / 8, sizeof bits);
    return std::countr_zero(bits >> at % 8 | std::uint64_t{1} << kMaxRun);
  }
};

// end_of() returns the first byte in [p, end) that is not in the set, or `end`. fill() makes a
// window of some bytes at `p`: a multiple of 64.
struct RunOneByOne {
  static constexpr bool kFills = false;

  static const char* end_of(const AsciiSet& set, const char* p, const char* end) {
    while (p != end && set.contains(static_cast<unsigned char>(*p))) ++p;
    return p;
  }
};

#if defined(__x86_64__)
// REQUIRES a processor with AVX, and a caller compiled for it.
struct RunBySixteen {
  static constexpr bool kFills = true;

  [[gnu::target("avx")]] static const char* end_of(const AsciiSet& set, const char* p, const char* end) {
    for (; end - p >= 16; p += 16)
      if (const unsigned mask = others(set, p); mask != 0) return p + std::countr_zero(mask);
    return RunOneByOne::end_of(set, p, end);
  }

  [[gnu::target("avx")]] static void fill(const AsciiSet& set, const char* p, std::ptrdiff_t bytes,
                                          RunWindow& window) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / 8; i += 2) {
      const auto mask = static_cast<std::uint16_t>(others(set, p + i * 8));
      std::memcpy(&window.others[i], &mask, sizeof mask);
    }
    window.begin = p;
    window.runs = bytes - 63;
  }

 private:
  // Returns which of the sixteen bytes at `p` are not in the set.
  [[gnu::target("avx")]] static unsigned others(const AsciiSet& set, const char* p) {
    const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(set.low.data()));
    const __m128i bit_of_high = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    const __m128i bits = _mm_and_si128(_mm_shuffle_epi8(low, bytes), _mm_shuffle_epi8(bit_of_high, high));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bits, _mm_setzero_si128())));
  }
};
#endif

}  // namespace rondo

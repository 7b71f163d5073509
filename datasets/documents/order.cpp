// Shuffles documents by Fisher-Yates over SplitMix64, with multiplication and rejection for
// unbiased numbers. Samples are too many for a table. A Feistel network permutes the next power of
// four, and a result at or above the count is permuted again (cycle walking). Each use of the seed
// has its own stream. All arithmetic is unsigned, for which overflow is defined.
#include "datasets/documents/order.h"

#include <bit>
#include <numeric>
#include <utility>

namespace rondo {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

// Separate streams for separate uses, so that document order and sample order are independent.
enum class Use : std::uint64_t { documents = 1, samples = 2 };

class SplitMix64 {
 public:
  SplitMix64(std::uint64_t seed, std::int64_t epoch, Use use)
      : state_(mix64(mix64(seed + kGolden) ^ static_cast<std::uint64_t>(epoch)) ^
               mix64(static_cast<std::uint64_t>(use))) {}

  std::uint64_t next() { return mix64(state_ += kGolden); }

  // Returns a uniform number in [0, bound) for bound <= 2^32: the high half of a 32 x 32 bit
  // product, with rejection of the results that would be biased.
  std::uint32_t below(std::uint64_t bound) {
    const std::uint64_t biased = (std::uint64_t{1} << 32) % bound;
    for (;;) {
      const std::uint64_t product = (next() >> 32) * bound;
      if ((product & 0xffffffff) >= biased) return static_cast<std::uint32_t>(product >> 32);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace

std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix64(hash);
}

std::vector<std::uint32_t> document_order(std::uint32_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 random(seed, epoch, Use::documents);
  for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

SamplePermutation::SamplePermutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch)
    : count_(static_cast<std::uint64_t>(count)) {
  const int bits = std::bit_width(count_ > 1 ? count_ - 1 : 1);
  half_bits_ = (bits + 1) / 2;
  SplitMix64 random(seed, epoch, Use::samples);
  for (std::uint64_t& key : keys_) key = random.next();
}

std::int64_t SamplePermutation::operator()(std::int64_t place) const {
  if (count_ < 2) return place;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t x = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (const std::uint64_t key : keys_) {
      left ^= mix64(right ^ key) & mask;
      std::swap(left, right);
    }
    x = left << half_bits_ | right;
  } while (x >= count_);
  return static_cast<std::int64_t>(x);
}

}  // namespace rondo

#include "datasets/stream.h"

#include <catch2/catch_test_macros.hpp>

using namespace rondo;

namespace {

// A source of documents of different lengths, some empty. A token encodes its document and
// position. Counts the requests for lengths.
class CountingSource final : public TokenSource {
 public:
  std::int64_t documents() const override { return 300; }
  std::int64_t tokens(std::int64_t document) const override {
    ++length_requests;
    return document % 7 == 0 ? 0 : 1 + document % 50;
  }
  std::uint64_t id_hash(std::int64_t document) const override { return static_cast<std::uint64_t>(document); }
  void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) override {
    for (std::int64_t at = begin; at < end; ++at) ids[at - begin] = 100 * document + at;
  }
  std::string identity() const override { return "counting"; }
  std::uint64_t content(std::int64_t) const override { return 0; }
  SourceCounts counts() const override { return {}; }

  mutable std::int64_t length_requests = 0;
};

std::vector<std::int64_t> sample(SampleStream& stream, std::int64_t number) {
  std::vector<std::int64_t> tokens(9), starts;
  stream.read_sample(number, tokens.data(), starts);
  return tokens;
}

}  // namespace

TEST_CASE("a stream requests each length once, for any number of epochs") {
  CountingSource source;
  const auto all = [](std::int64_t) { return true; };
  SampleStream stream(source, all, 8, 5, /*shuffle=*/true);
  CHECK(source.length_requests == 300);
  for (std::int64_t number = 0; number < 4 * stream.samples_per_epoch(); ++number) sample(stream, number);
  CHECK(source.length_requests == 300);
}

TEST_CASE("epochs prepared in the background, after a seek and by reading on have the same samples") {
  CountingSource source;
  const auto all = [](std::int64_t) { return true; };
  SampleStream sequential(source, all, 8, 5, /*shuffle=*/true);
  const std::int64_t samples = sequential.samples_per_epoch();
  REQUIRE(samples > 100);
  for (std::int64_t number = 0; number < 3 * samples; ++number) {
    SampleStream sought(source, all, 8, 5, /*shuffle=*/true);
    const std::vector<std::int64_t> expected = sample(sequential, number);
    if (number % 97 == 0 || number % samples < 2 || number % samples > samples - 3)
      REQUIRE(expected == sample(sought, number));
  }
  SampleStream back(source, all, 8, 5, /*shuffle=*/true);
  const std::vector<std::int64_t> first = sample(back, 0);
  sample(back, samples - 1);  // the next epoch is being prepared
  CHECK(sample(back, 2 * samples) == sample(sequential, 2 * samples));
  CHECK(sample(back, 0) == first);
}

TEST_CASE("a document may have more than 2^32 tokens") {
  class Long final : public TokenSource {
   public:
    std::int64_t documents() const override { return 2; }
    std::int64_t tokens(std::int64_t) const override { return std::int64_t{5} << 32; }
    std::uint64_t id_hash(std::int64_t) const override { return 1; }
    void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) override {
      for (std::int64_t at = begin; at < end; ++at) ids[at - begin] = document + at;
    }
    std::string identity() const override { return "long"; }
    std::uint64_t content(std::int64_t) const override { return 0; }
    SourceCounts counts() const override { return {}; }
  } source;
  SampleStream stream(
      source, [](std::int64_t) { return true; }, 8, 5, /*shuffle=*/false);
  CHECK(stream.tokens_per_epoch() == std::int64_t{10} << 32);
  CHECK(sample(stream, (std::int64_t{5} << 32) / 8)[0] == 1);
}

#include "apps/sampling.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/error.h"

using namespace rondo;

namespace {

// How often each of the tokens was chosen in `draws` draws.
std::vector<int> counts(const std::vector<float>& logits, const Sampling& sampling, int draws) {
  std::vector<int> counts(logits.size());
  for (int number = 0; number < draws; ++number)
    ++counts[static_cast<std::size_t>(choose_token(logits, sampling, number))];
  return counts;
}

}  // namespace

TEST_CASE("without a temperature the likeliest token is chosen, of equal ones the first") {
  CHECK(choose_token(std::vector<float>{-1, 3, 2, 3}, {}, 0) == 1);
  CHECK(choose_token(std::vector<float>{-5}, {}, 7) == 0);
}

TEST_CASE("tokens are drawn as often as their probabilities say, which the temperature evens out") {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const std::vector<int> plain = counts(logits, {.temperature = 1}, 10'000);
  CHECK(std::abs(plain[0] - 1000) < 150);
  CHECK(std::abs(plain[1] - 6000) < 250);
  CHECK(std::abs(plain[2] - 3000) < 250);
  const std::vector<int> hot = counts(logits, {.temperature = 1000}, 9'000);
  for (const int count : hot) CHECK(std::abs(count - 3000) < 250);
  CHECK(counts(logits, {.temperature = 0.01}, 1000)[1] == 1000);
}

TEST_CASE("top_p keeps the fewest likeliest tokens that come to it") {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const std::vector<int> two = counts(logits, {.temperature = 1, .top_p = 0.8}, 3'000);
  CHECK(two[0] == 0);
  CHECK(std::abs(two[1] - 2000) < 150);
  CHECK(counts(logits, {.temperature = 1, .top_p = 0.5}, 1000)[1] == 1000);
  CHECK(counts(logits, {.temperature = 1, .top_p = 0}, 1000)[1] == 1000);
}

TEST_CASE("top_k keeps so many of the likeliest tokens, of equal ones those with the lower ids") {
  for (int k = 1; k <= 8; ++k) {
    const std::vector<int> draws = counts(std::vector<float>(8, 0.5f), {.temperature = 1, .top_k = k}, 1000);
    for (int token = 0; token < 8; ++token) {
      INFO("token " << token << " of " << k);
      CHECK((draws[static_cast<std::size_t>(token)] > 0) == (token < k));
    }
  }
  const std::vector<int> two = counts({1, 2, 3, 2, 2}, {.temperature = 1000, .top_k = 2}, 3'000);
  CHECK(two[2] + two[1] == 3'000);
  CHECK(std::abs(two[1] - 1500) < 150);
  CHECK(counts({1, 3, 2, 3}, {.temperature = 1000, .top_k = 1}, 1000)[1] == 1000);

  const std::vector<int> all = counts({1, 3, 2, 3}, {.temperature = 1}, 1000);
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{4}, std::numeric_limits<std::int64_t>::max()})
    CHECK(counts({1, 3, 2, 3}, {.temperature = 1, .top_k = k}, 1000) == all);
}

TEST_CASE("top_p counts the probabilities of the tokens that top_k leaves, after the temperature") {
  const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  // 0.5 is less than 0.6, and 0.5 / (0.5 + 0.3) is more.
  const std::vector<int> plain = counts(logits, {.temperature = 1, .top_p = 0.6}, 1000);
  CHECK(plain[1] + plain[2] == 1000);
  CHECK(plain[2] > 0);
  CHECK(counts(logits, {.temperature = 1, .top_k = 2, .top_p = 0.6}, 1000)[1] == 1000);
  const std::vector<int> both = counts(logits, {.temperature = 1, .top_k = 2, .top_p = 0.7}, 4'000);
  CHECK(both[0] == 0);
  CHECK(std::abs(both[1] - 2500) < 200);
  const std::vector<int> hot = counts(logits, {.temperature = 1000, .top_k = 2, .top_p = 0.6}, 4'000);
  CHECK(hot[0] == 0);
  CHECK(std::abs(hot[1] - 2000) < 200);
}

TEST_CASE("the seed and the number of the draw decide it, and nothing else") {
  const std::vector<float> logits(1000, 0.0f);
  std::vector<std::int64_t> first, again, other;
  for (int number = 0; number < 50; ++number) {
    first.push_back(choose_token(logits, {.temperature = 1, .seed = 3}, number));
    again.push_back(choose_token(logits, {.temperature = 1, .seed = 3}, number));
    other.push_back(choose_token(logits, {.temperature = 1, .seed = 4}, number));
  }
  CHECK(first == again);
  CHECK(first != other);
  CHECK(first[0] != first[1]);
}

TEST_CASE("logits that are not finite are an error") {
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    try {
      choose_token(std::vector<float>{0, wrong}, {}, 0);
      FAIL("taken");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::numerics);
    }
  }
}

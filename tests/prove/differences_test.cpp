// Tests how differences are described.
#include "prove/differences.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Numbers = std::vector<double>;

const Numbers kRight = {1, -2, 3, 0.5, 8, -1};
const Compared kCompared = {{}, 0.9, 1, {{"dp_replicate", 2}, {"tp", 3}, {"ep", 3}}};

std::string described(const Numbers& found) { return describe_difference(kRight, found, 1e-12, kCompared); }
Numbers times(double factor) {
  Numbers found = kRight;
  for (double& number : found) number *= factor;
  return found;
}

TEST_CASE("a factor is reported with the axes of that degree") {
  CHECK(described(times(2)) ==
        "every element is 2 times what it should be: it may be added up once more over dp_replicate");
  CHECK_THAT(described(times(1.0 / 3)), ContainsSubstring("a sum over tp or ep may be missing"));
  CHECK(described(times(1.25)) == "every element is 1.25 times what it should be");
}

TEST_CASE("without a factor the elements that differ are counted") {
  Numbers found = kRight;
  found[2] += 1e-9;
  found[4] -= 1;
  CHECK(described(found) == "2 of 6 elements differ, from 2 to 4 of the flattened tensor");
}

TEST_CASE("a tensor of zeros is reported as one") {
  CHECK(described(Numbers(6)) == "it is all zero");
  CHECK(describe_difference(Numbers(6), kRight, 1e-12, kCompared) == "it should be all zero");
}

}  // namespace
}  // namespace rondo

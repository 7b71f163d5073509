#include "trainer/tokenizer/tokenizer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/trainer/data/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a model whose vocabulary is smaller than the tokenizer's is refused") {
  const ByteTokenizer tokenizer;
  CHECK(data_error([&] { check_vocabulary(tokenizer, 258); }) == "no error");
  CHECK_THAT(data_error([&] { check_vocabulary(tokenizer, 257); }),
             ContainsSubstring("the byte tokenizer has 258 token ids, but the model's vocabulary has 257"));
}

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/tokenizer/tokenizer.h"
#include "tests/datasets/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a model whose vocabulary is smaller than the tokenizer's is refused") {
  const ByteTokenizer tokenizer;
  CHECK(data_error([&] { check_vocabulary(tokenizer, 258); }) == "no error");
  CHECK_THAT(data_error([&] { check_vocabulary(tokenizer, 257); }),
             ContainsSubstring("the byte tokenizer has 258 token ids, but the model's vocabulary has 257"));
}

TEST_CASE("the byte tokenizer decodes to the same bytes, and BOS and EOS to none") {
  const ByteTokenizer tokenizer;
  std::vector<std::int32_t> ids;
  tokenizer.encode("a\xFF", ids);
  CHECK(ids == std::vector<std::int32_t>{'a', 0xFF});
  std::string text;
  tokenizer.decode(std::vector<std::int32_t>{256, 'a', 0xFF, 257}, text);
  CHECK(text == "a\xFF");
  CHECK_THAT(data_error([&] { tokenizer.decode(std::vector<std::int32_t>{258}, text); }),
             ContainsSubstring("the byte tokenizer has no id 258"));
}

#include "support/text/base64.h"

#include <catch2/catch_test_macros.hpp>

using rondo::base64_bytes;

TEST_CASE("base64 is decoded with its padding, and any other text is refused") {
  CHECK(base64_bytes("") == "");
  CHECK(base64_bytes("Zg==") == "f");
  CHECK(base64_bytes("Zm8=") == "fo");
  CHECK(base64_bytes("Zm9vYmFy") == "foobar");
  CHECK(base64_bytes("//79") == "\xff\xfe\xfd");
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zm9v\n", "Zm-_", "=Zg=", "Zg==Zg=="})
    CHECK_FALSE(base64_bytes(text).has_value());
}

#include "support/text/size_text.h"

#include <catch2/catch_test_macros.hpp>

namespace rondo {

TEST_CASE("bytes are written in binary units") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(1023) == "1023 B");
  CHECK(size_text(1536) == "1.5 KiB");
  CHECK(size_text(5LL << 20) == "5.0 MiB");
  CHECK(size_text(80LL << 30) == "80.0 GiB");
  CHECK(size_text(48'855'253'811) == "45.5 GiB");
  CHECK(size_text(3LL << 60) == "3072.0 PiB");
}

TEST_CASE("counts are written in powers of 1000") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(409'600) == "409.6 k");
  CHECK(count_text(999'960) == "1.0 M");
  CHECK(count_text(6'163'712) == "6.2 M");
  CHECK(count_text(8'030'261'248) == "8.0 B");
  CHECK(count_text(15'600'000'000'000) == "15.6 T");
}

}  // namespace rondo

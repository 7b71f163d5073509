#include "support/text/utc_time.h"

#include <catch2/catch_test_macros.hpp>

namespace rondo {

TEST_CASE("a time has a text with milliseconds, which reads back to it") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00.000Z");
  CHECK(utc_text(951782399.9996) == "2000-02-29T00:00:00.000Z");  // rounded up
  CHECK(utc_text(1769860800.123) == "2026-01-31T12:00:00.123Z");
  CHECK(utc_seconds("2026-01-31T12:00:00.123Z") == 1769860800 + 0.123);
  CHECK(utc_seconds("2026-01-31T12:00:00Z") == 1769860800);
  const std::string now = utc_now();
  CHECK(utc_text(utc_seconds(now).value()) == now);
}

TEST_CASE("a text that is no time of UTC has no seconds") {
  for (const char* text : {"", "Z", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-13-31T12:00:00Z",
                           "2026-01-31T12:00:00.1x3Z", "2026-01-31T12:00:00+1Z", "2026-01-31T12:00:00.123ZZ",
                           "2026-01-31T12:00:00.-12Z"})
    CHECK_FALSE(utc_seconds(text).has_value());
}

}  // namespace rondo

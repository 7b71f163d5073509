#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "runs/metrics/run_folder.h"
#include "support/log.h"
#include "support/logged_warnings.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using nlohmann::json;

TEST_CASE("a warning of the log is one event, and the log's other lines are none") {
  const Scratch scratch;
  take_logged_warnings();
  log_info("a line");
  log_warning("the disk is \"slow\"");
  RunFolder run(scratch / "run");
  run.begin({});
  run.write_warnings();
  run.write_warnings();
  const auto events = lines_of(run.path() / "events.jsonl");
  REQUIRE(events.size() == 1);
  CHECK(json::parse(events[0])["event"] == "warning");
  CHECK(json::parse(events[0])["text"] == "the disk is \"slow\"");
  for (int i = 0; i < 1000; ++i) log_warning("again");
  CHECK(take_logged_warnings().size() == 100);
}

}  // namespace
}  // namespace rondo

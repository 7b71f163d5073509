#include "runs/metrics/metrics_files.h"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

#include "tests/runs/metrics/scratch.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

StepMetrics some_step(std::int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  m.grad_norm = std::nan("");
  m.lr = 1e-3;
  m.memory_gib = 0.1;
  m.tokens_seen = 123'456'789'012;
  return m;
}

}  // namespace

TEST_CASE("metrics.csv has a line of names, and per step as many cells, empty for missing numbers") {
  const Scratch place;
  MetricsTable table(place / "metrics.csv");
  table.write(some_step(1));
  StepMetrics full = some_step(2);
  full.grad_norm = -std::numeric_limits<double>::infinity();
  full.mfu = 40;
  full.load_imbalance = 1.25;
  full.attention_imbalance = 0.5;
  full.state_hash = "00ff";
  table.write(full);
  CHECK(lines_of(place / "metrics.csv") ==
        std::vector<std::string>{
            "step,loss,grad_norm,lr,step_time_s,tokens_per_s,tflops,mfu,memory_gib,data_wait_fraction,"
            "tokens_seen,load_imbalance,attention_imbalance,state_hash",
            "1,2.5,NaN,0.001,0,0,0,,0.1,0,123456789012,,,",
            "2,2.5,-Infinity,0.001,0,0,0,40,0.1,0,123456789012,1.25,0.5,00ff"});
}

TEST_CASE("the table takes over lines of metrics.jsonl as if it had written them") {
  const Scratch place;
  MetricsTable first(place / "first.csv"), second(place / "second.csv");
  StepMetricsWriter lines(place / "metrics.jsonl");
  for (const std::int64_t step : {1, 2, 3}) {
    first.write(some_step(step));
    lines.write(some_step(step));
  }
  second.take_over(place / "metrics.jsonl");
  CHECK(text_of(place / "first.csv") == text_of(place / "second.csv"));
}

TEST_CASE("the page for Prometheus is complete at any time and has a gauge for each number") {
  const Scratch place;
  StepMetrics m = some_step(7);
  write_prometheus(place / "rondo.prom", "a", some_step(6));
  m.grad_norm = std::numeric_limits<double>::infinity();
  write_prometheus(place / "rondo.prom", "my \"run\"\\", m);
  const std::string page = text_of(place / "rondo.prom");
  CHECK_THAT(page, ContainsSubstring("# HELP rondo_loss mean over the valid tokens of the global batch\n"
                                     "# TYPE rondo_loss gauge\n"
                                     "rondo_loss{run=\"my \\\"run\\\"\\\\\"} 2.5\n"));
  CHECK_THAT(page, ContainsSubstring("rondo_step{run=\"my \\\"run\\\"\\\\\"} 7\n"));
  CHECK_THAT(page, ContainsSubstring("rondo_grad_norm{run=\"my \\\"run\\\"\\\\\"} +Inf\n"));
  CHECK_THAT(page, !ContainsSubstring("mfu"));
  CHECK_FALSE(std::filesystem::exists(place / "rondo.prom.part"));
}

TEST_CASE("the page for Prometheus replaces no pipe, device or link") {
  const Scratch place;
  const std::filesystem::path file = place / "rondo.prom";
  require_prometheus_file(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { require_prometheus_file(file); }),
             ContainsSubstring("6: metrics.prometheus_file = \"" + file.string() + "\" is no regular file"));
  CHECK_THAT(error_of([&] { write_prometheus(file, "a", some_step(1)); }),
             ContainsSubstring("is a device, pipe or socket, and would be replaced"));
  CHECK(std::filesystem::is_fifo(file));
  std::filesystem::remove(file);
  std::filesystem::create_symlink("elsewhere", file);
  CHECK_THAT(error_of([&] { require_prometheus_file(file); }), ContainsSubstring("is no regular file"));
}

#include "runs/metrics/step_metrics.h"

#include <fmt/format.h>

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "runs/metrics/flops.h"
#include "runs/metrics/throughput.h"

namespace rondo {
namespace {

StepMetrics example() {
  StepMetrics m;
  m.step = 7;
  m.loss = 7.624612331390381;
  m.grad_norm = 1.2345;
  m.lr = 8e-4;
  m.step_time_s = 0.25;
  m.tokens_per_s = 1234567.5;
  m.tflops = 1234.5;
  m.mfu = 43.2109;
  m.memory_gib = 0.125;
  m.data_wait_fraction = 0.01;
  m.data_wait_s = 0.0025;
  m.tokens_seen = 1 << 20;
  m.progress = 0.5;
  m.validation_loss = 7.5;
  m.state_hash = "00c0ffee00c0ffee";
  return m;
}

std::string complaint(const std::string& line) {
  try {
    parse_step_metrics(line);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no complaint";
}

double read_back(double value) {
  const auto json = nlohmann::json::parse(json_number(value));
  if (json.is_number_float()) return json.get<double>();
  const std::string line = R"({"step":1,"grad_norm":0.0,"lr":0.0,"loss":)" + json_number(value) + "}";
  return parse_step_metrics(line).loss;
}

}  // namespace

TEST_CASE("half a million random doubles read back to the same bits") {
  std::mt19937_64 random(20260131);
  std::size_t wrong = 0;
  for (int i = 0; i < 500'000; ++i) {
    const std::uint64_t bits = random();
    const double value = std::bit_cast<double>(bits), back = read_back(value);
    const bool same = std::isnan(value) ? std::isnan(back) : std::bit_cast<std::uint64_t>(back) == bits;
    if (!same) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("half a million random floats survive as doubles bit for bit") {
  std::mt19937 random(20260131);
  std::size_t wrong = 0;
  for (int i = 0; i < 500'000; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    const float value = std::bit_cast<float>(bits), back = static_cast<float>(read_back(value));
    const bool same = std::isnan(value) ? std::isnan(back) : std::bit_cast<std::uint32_t>(back) == bits;
    if (!same) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("zero, minus zero, subnormals and the largest double read back to the same bits") {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, -0.0, 1.0, -3.0, 1e16, 1e22, Limits::denorm_min(), Limits::min(),
                             Limits::max(), Limits::lowest(), Limits::infinity(), -Limits::infinity()}) {
    CAPTURE(value);
    CHECK(std::bit_cast<std::uint64_t>(read_back(value)) == std::bit_cast<std::uint64_t>(value));
  }
  CHECK(std::isnan(read_back(Limits::quiet_NaN())));
}

TEST_CASE("numbers that JSON lacks are written as strings") {
  CHECK(json_number(std::nan("")) == "\"NaN\"");
  CHECK(json_number(std::numeric_limits<double>::infinity()) == "\"Infinity\"");
  CHECK(json_number(-std::numeric_limits<double>::infinity()) == "\"-Infinity\"");
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(3) == "3.0");
}

TEST_CASE("a line of metrics.jsonl has every field in a fixed order") {
  CHECK(
      to_json(example()) ==
      R"({"step":7,"loss":7.624612331390381,"grad_norm":1.2345,"lr":0.0008,"step_time_s":0.25,)"
      R"("tokens_per_s":1234567.5,"tflops":1234.5,"mfu":43.2109,"memory_gib":0.125,"data_wait_fraction":0.01,)"
      R"("data_wait_s":0.0025,"tokens_seen":1048576,"progress":0.5,"validation_loss":7.5,)"
      R"("state_hash":"00c0ffee00c0ffee"})");
}

TEST_CASE("a line of metrics.jsonl is read back unchanged") {
  StepMetrics m = example();
  CHECK(to_json(parse_step_metrics(to_json(m))) == to_json(m));
  m.mfu.reset();
  m.state_hash.reset();
  m.validation_loss.reset();
  m.loss = std::nan("");
  const std::string line = to_json(m);
  CHECK(nlohmann::json::parse(line)["mfu"].is_null());
  CHECK_FALSE(nlohmann::json::parse(line).contains("state_hash"));
  CHECK_FALSE(nlohmann::json::parse(line).contains("validation_loss"));
  CHECK(to_json(parse_step_metrics(line)) == line);
}

TEST_CASE("a malformed line is refused with the key and the rule") {
  CHECK(complaint("[1]") == "not a JSON object");
  CHECK(complaint("{}") == "\"step\" is missing");
  CHECK(complaint(R"({"step":1.5})") == "\"step\" must be an integer of at least 0");
  CHECK(complaint(R"({"step":-1})") == "\"step\" must be an integer of at least 0");
  CHECK(complaint(R"({"step":18446744073709551615})") == "\"step\" must be an integer of at least 0");
  CHECK(complaint(R"({"step":9223372036854775807})") == "\"step\" must be at most 1000000000000");
  CHECK(complaint(R"({"step":1})") == "\"loss\" is missing");
  for (const char* value : {"true", "null", "[1]", "{\"a\":1}"}) {
    CHECK(complaint(fmt::format(R"({{"step":{}}})", value)) == "\"step\" must be an integer of at least 0");
    CHECK(complaint(fmt::format(R"({{"step":1,"loss":{}}})", value)) ==
          "\"loss\" must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
  }
  CHECK(complaint("5") == "not a JSON object");
  const std::string deep = R"({"step":1,"loss":1,"grad_norm":1,"lr":1,"x":)";
  CHECK(complaint(deep + std::string(600, '[')) == "nested deeper than 512");
  CHECK_NOTHROW(parse_step_metrics(deep + R"({"step":[{"loss":"nan"}],"lr":null}})"));
  CHECK(complaint(R"({"step":1,"loss":"nan"})") ==
        "\"loss\" must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
  CHECK(complaint(R"({"step":1,"loss":1,"grad_norm":1,"lr":1,"state_hash":5})") ==
        "\"state_hash\" must be a string");
  CHECK(complaint(R"({"step":1,"loss":)").rfind("parse error at line 1, column 18: syntax error", 0) == 0);
}

TEST_CASE("the console line has the values of a step and the time left, in 81 columns") {
  CHECK(console_line(example(), {.eta_s = 83}) ==
        "step 7  loss 7.6246  norm 1.2345  0.12 GiB  1,234,568 tps  mfu 43.2%  eta 1m23s");
  StepMetrics late = example();
  late.step = 99'999;
  late.memory_gib = 79.1;
  late.tokens_per_s = 99'999;
  CHECK(console_line(late, {.eta_s = 83'000}).size() <= 81);
}

TEST_CASE("an overflow is read back, and shown on the console if there was one") {
  StepMetrics m = example();
  m.overflow.emplace();
  CHECK(console_line(m, {}) == console_line(example(), {}));
  m.overflow->add({90, 1, 0});
  m.overflow->add({6, 0, 1});
  CHECK(console_line(m, {}) ==
        console_line(example(), {}) + "  dropped_tokens: 96  repeated_steps: 1  skipped_steps: 1");
  const StepMetrics read = parse_step_metrics(to_json(m));
  REQUIRE(read.overflow);
  CHECK(read.overflow->dropped_tokens == 96);
  CHECK(read.overflow->repeated_steps == 1);
  CHECK(read.overflow->skipped_steps == 1);
  CHECK(to_json(example()).find("dropped") == std::string::npos);
  CHECK(complaint(R"({"step":1,"loss":1,"grad_norm":1,"lr":1,"dropped_tokens":1,"repeated_steps":1})") ==
        "\"skipped_steps\" must be an integer of at least 0");
}

TEST_CASE("the console line says FLOP/s for an unknown peak and survives NaN") {
  StepMetrics m;
  m.step = 12345;
  m.loss = std::nan("");
  m.grad_norm = std::numeric_limits<double>::infinity();
  m.tokens_per_s = 999.5;
  CHECK(console_line(m, {}) == "step 12345  loss nan  norm inf  0.00 GiB  1,000 tps  0.0 GFLOP/s");
  m.tflops = 1234.5;
  CHECK(console_line(m, {}).ends_with("  1,234.5 TFLOP/s"));
}

TEST_CASE("colour changes no character of the console line") {
  const std::string colored = console_line(example(), {.color = true, .eta_s = 83});
  CHECK(colored.rfind("\033[31mstep 7  \033[32mloss 7.6246  \033[38;2;180;60;0mnorm ", 0) == 0);
  std::string plain;
  for (std::size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\033')
      i = colored.find('m', i);
    else
      plain += colored[i];
  }
  CHECK(plain == console_line(example(), {.eta_s = 83}));
}

TEST_CASE("the validation line has loss, memory and speed") {
  CHECK(console_line(ValidationMetrics{20, 6.54321, 54321, 1.5}, {}) ==
        "step 20  validation loss 6.5432  1.50 GiB  54,321 tps");
}

TEST_CASE("durations have readable units") {
  CHECK(format_duration(0) == "0s");
  CHECK(format_duration(59.4) == "59s");
  CHECK(format_duration(59.6) == "1m00s");
  CHECK(format_duration(83) == "1m23s");
  CHECK(format_duration(7500) == "2h05m");
  CHECK(format_duration(3 * 86400 + 4 * 3600) == "3d04h");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(std::nan("")) == "?");
  CHECK(format_duration(1e300) == "?");
}

TEST_CASE("mfu is flops per token times tokens per second over the peak") {
  CHECK(*mfu_percent(1000, 2e9, 4e12) == 50);
  CHECK_FALSE(mfu_percent(1000, 2e9, std::nullopt));
  CHECK(tflops(1000, 2e9) == 2);
}

TEST_CASE("throughput of the first line is the throughput of its one step") {
  Throughput throughput(100);
  throughput.step_done(1000, 0.5, 102);
  const Throughput::Reading first = throughput.read(102);
  CHECK(first.tokens_per_s == 500);
  CHECK(first.step_time_s == 2);
  CHECK(first.data_wait_fraction == 0.25);
}

TEST_CASE("throughput excludes validation and counts the steps since the last line") {
  Throughput throughput(0);
  throughput.step_done(1000, 0, 10);
  throughput.read(10);
  throughput.step_done(1000, 0, 11);
  throughput.pause(11);
  throughput.resume(21);
  throughput.step_done(1000, 0, 22);
  const Throughput::Reading reading = throughput.read(22);
  CHECK(reading.tokens_per_s == 1000);
  CHECK(reading.step_time_s == 1);
  throughput.step_done(1000, 0, 23);
  CHECK(throughput.read(23).step_time_s == 1);
}

TEST_CASE("the time left excludes the first step and includes validation") {
  Throughput throughput(0);
  CHECK_FALSE(throughput.eta_s(10));
  throughput.step_done(1, 0, 50);
  CHECK_FALSE(throughput.eta_s(10));
  throughput.step_done(1, 0, 51);
  throughput.pause(51);
  throughput.resume(53);
  throughput.step_done(1, 0, 54);
  CHECK(*throughput.eta_s(10) == 20);
}

}  // namespace rondo

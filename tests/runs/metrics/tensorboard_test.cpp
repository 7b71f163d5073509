#include "runs/metrics/tensorboard.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/rondo/run_program.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// An independent reader of TFRecords and protobuf, without the writer's functions.
struct Reader {
  std::string_view bytes;

  template <typename T>
  T fixed() {
    T value;
    REQUIRE(bytes.size() >= sizeof(T));
    std::memcpy(&value, bytes.data(), sizeof(T));
    bytes.remove_prefix(sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(0));
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(std::size_t count) {
    REQUIRE(bytes.size() >= count);
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
};

// Computed bit by bit, without the writer's table.
std::uint32_t slow_masked_crc(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version, session_log;
  std::map<std::string, float> values;
};

std::pair<std::string, float> read_value(std::string_view bytes) {
  std::pair<std::string, float> value;
  for (Reader reader{bytes}; !reader.bytes.empty();) {
    const std::uint64_t key = reader.varint();
    if (key == (1 << 3 | 2)) value.first = reader.take(reader.varint());
    if (key == (2 << 3 | 5)) value.second = reader.fixed<float>();
  }
  return value;
}

Event read_event(std::string_view bytes) {
  Event event;
  for (Reader reader{bytes}; !reader.bytes.empty();) {
    const std::uint64_t key = reader.varint();
    if (key == (1 << 3 | 1)) event.wall_time = reader.fixed<double>();
    if (key == (2 << 3 | 0)) event.step = static_cast<std::int64_t>(reader.varint());
    if (key == (3 << 3 | 2)) event.file_version = reader.take(reader.varint());
    if (key == (7 << 3 | 2)) event.session_log = reader.take(reader.varint());
    if (key == (5 << 3 | 2)) {
      for (Reader summary{reader.take(reader.varint())}; !summary.bytes.empty();) {
        REQUIRE(summary.varint() == (1 << 3 | 2));
        event.values.insert(read_value(summary.take(summary.varint())));
      }
    }
  }
  return event;
}

std::vector<Event> read_events(const std::string& bytes) {
  std::vector<Event> events;
  for (Reader reader{bytes}; !reader.bytes.empty();) {
    const std::string_view length_bytes = reader.bytes.substr(0, 8);
    const auto length = reader.fixed<std::uint64_t>();
    CHECK(reader.fixed<std::uint32_t>() == slow_masked_crc(length_bytes));
    const std::string_view data = reader.take(length);
    CHECK(reader.fixed<std::uint32_t>() == slow_masked_crc(data));
    events.push_back(read_event(data));
  }
  return events;
}

StepMetrics metrics_at(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 8.0 / static_cast<double>(step);
  metrics.tokens_per_s = 1e6 + static_cast<double>(step);
  metrics.mfu = 41.5;
  return metrics;
}

// Returns the command of a Python with `tensorboard`; empty without one.
std::vector<std::string> tensorboard_python() {
  const std::string script = std::string(RONDO_SOURCE_DIR) + "/scripts/oracle_python.sh";
  const std::vector<std::vector<std::string>> candidates = {{script}, {"/usr/bin/env", "python3"}};
  for (const std::vector<std::string>& candidate : candidates) {
    std::vector<std::string> probe = candidate;
    probe.insert(probe.end(), {"-c", "import tensorboard"});
    const ProgramResult result = run_program(probe, 60'000);
    if (result.started && result.exit_code == 0) return candidate;
  }
  return {};
}

constexpr const char* kReadScalars = R"(
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}))
)";

}  // namespace

TEST_CASE("crc32c has the published values") {
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c("") == 0);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
}

TEST_CASE("an event file has the version, then each step's scalars") {
  const Scratch scratch;
  EventFile file(scratch.root(), 1);
  CHECK(file.file().path().filename().string().rfind("events.out.tfevents.", 0) == 0);
  file.write(1, tensorboard_scalars(metrics_at(1)));
  file.write(std::int64_t{1} << 40, std::vector<Scalar>{{"nan", std::nanf("")}});

  const auto events = read_events(text_of(file.file().path()));
  REQUIRE(events.size() == 4);
  CHECK(events[0].file_version == "brain.Event:2");
  CHECK(events[0].wall_time > 1.7e9);
  CHECK(events[1].step == 1);
  CHECK(events[1].session_log == "\x08\x01");
  CHECK(events[2].step == 1);
  CHECK(events[2].values.at("loss_metrics/global_avg_loss") == 8.0f);
  CHECK(events[2].values.at("throughput(tps)") == 1000001.0f);
  CHECK(events[2].values.at("mfu(%)") == 41.5f);
  CHECK(events[3].step == std::int64_t{1} << 40);
  CHECK(std::isnan(events[3].values.at("nan")));
}

TEST_CASE("the tags are torchtitan's and an unknown mfu is left out") {
  StepMetrics metrics = metrics_at(1);
  metrics.mfu.reset();
  std::vector<std::string> tags;
  for (const Scalar& scalar : tensorboard_scalars(metrics)) tags.push_back(scalar.tag);
  CHECK(tags == std::vector<std::string>{"loss_metrics/global_avg_loss", "grad_norm", "lr", "throughput(tps)",
                                         "tflops", "time_metrics/end_to_end(s)",
                                         "time_metrics/data_loading(s)", "time_metrics/data_loading(%)",
                                         "memory/max_active(GiB)", "n_tokens_seen"});
}

TEST_CASE("an overflow has its own tags") {
  StepMetrics metrics = metrics_at(1);
  const std::size_t others = tensorboard_scalars(metrics).size();
  metrics.overflow = {96, 2, 1};
  const std::vector<Scalar> scalars = tensorboard_scalars(metrics);
  REQUIRE(scalars.size() == others + 3);
  CHECK(scalars[others].tag == "experts/dropped_tokens");
  CHECK(scalars[others].value == 96);
  CHECK(scalars[others + 1].tag == "experts/repeated_steps");
  CHECK(scalars[others + 1].value == 2);
  CHECK(scalars[others + 2].tag == "experts/skipped_steps");
  CHECK(scalars[others + 2].value == 1);
}

TEST_CASE("TensorBoard itself reads a resumed run to the same values, as one curve") {
  std::vector<std::string> python = tensorboard_python();
  if (python.empty()) SKIP("no Python with tensorboard; scripts/setup.sh --oracles installs it");
  const Scratch scratch;
  EventFile file(scratch.root(), 1);
  // A run that reached step 30 and was resumed after step 20 is one curve.
  for (std::int64_t step = 1; step <= 30; ++step) {
    StepMetrics metrics = metrics_at(step);
    if (step > 20) metrics.loss = -1;
    file.write(step, tensorboard_scalars(metrics));
  }
  EventFile resumed(scratch.root(), 21);
  for (std::int64_t step = 21; step <= 50; ++step) resumed.write(step, tensorboard_scalars(metrics_at(step)));

  python.insert(python.end(), {"-c", kReadScalars, scratch.root().string()});
  const ProgramResult result = run_program(python, 60'000);
  CAPTURE(result.output);
  REQUIRE(result.exit_code == 0);
  const auto read = nlohmann::json::parse(result.output.substr(result.output.find('{')));
  CHECK(read.size() == tensorboard_scalars(metrics_at(1)).size());
  for (std::int64_t step = 1; step <= 50; ++step)
    for (const Scalar& scalar : tensorboard_scalars(metrics_at(step))) {
      CHECK(read.at(scalar.tag).size() == 50);
      const auto& event = read.at(scalar.tag).at(static_cast<std::size_t>(step - 1));
      CHECK(event[0] == step);
      CHECK(event[1].get<float>() == scalar.value);
    }
}

}  // namespace rondo

// Tests the records that a run writes on request: traces, memory snapshots, and the collectives
// before a lost peer.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using launch::holds_soon;
using launch::Launch;
namespace fs = std::filesystem;

nlohmann::json json_of(const fs::path& file) {
  INFO(file);
  return nlohmann::json::parse(text_of(file));
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> paths;
  if (!fs::exists(folder)) return paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) paths.insert(fs::relative(entry.path(), folder));
  return paths;
}

struct Event {
  std::string name;
  double begin = 0, end = 0;
  bool holds(const Event& other) const { return begin <= other.begin && other.end <= end; }
};

std::vector<Event> events_of(const fs::path& trace) {
  std::vector<Event> events;
  const nlohmann::json file = json_of(trace);
  for (const nlohmann::json& event : file["traceEvents"])
    if (event.value("ph", "") == "X")
      events.push_back({event["name"], event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
  return events;
}

std::size_t count(const std::vector<Event>& events, const std::string& name) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const Event& event) { return event.name == name; }));
}

// Returns whether an event `inner` is within an event `outer`.
bool nested(const std::vector<Event>& events, const std::string& outer, const std::string& inner) {
  return std::any_of(events.begin(), events.end(), [&](const Event& one) {
    return one.name == outer && std::any_of(events.begin(), events.end(), [&](const Event& other) {
             return other.name == inner && one.holds(other);
           });
  });
}

const Words kTraces = {"--training.steps=9",
                       "--profiling.enable_profiling=true",
                       "--profiling.profile_freq=4",
                       "--profiling.profiler_active=2",
                       "--profiling.profiler_warmup=1",
                       "--validation.enable=false"};

TEST_CASE("every rank writes a trace every profile_freq steps, with its modules, phases, ops and steps") {
  const Words way =
      GENERATE(Words{}, Words{"--compile.executor=interpreter"}, Words{"--compile.enable=false"});
  const Place place;
  place.play(2, "run", kTraces + way);
  CHECK(files_below(place / "run/profile_traces") ==
        std::set<std::string>{"iteration_4/rank0_trace.json", "iteration_4/rank1_trace.json",
                              "iteration_8/rank0_trace.json", "iteration_8/rank1_trace.json"});
  const nlohmann::json trace = json_of(place / "run/profile_traces/iteration_8/rank1_trace.json");
  CHECK(trace["distributedInfo"]["rank"] == 1);
  CHECK(trace["distributedInfo"]["world_size"] == 2);
  const std::vector<Event> events = events_of(place / "run/profile_traces/iteration_8/rank1_trace.json");
  for (const char* step : {"ProfilerStep#7", "ProfilerStep#8"}) {
    CHECK(count(events, step) == 1);
    CHECK(nested(events, step, "train_step"));
  }
  CHECK(count(events, "train_step") == 2);
  CHECK(count(events, "ProfilerStep#6") == 0);
  for (const char* phase : {"forward", "backward", "update"}) CHECK(nested(events, "train_step", phase));
  CHECK(nested(events, "forward", "layers.1.attention.wq"));
  CHECK(nested(events, "layers.1", "layers.1.attention"));
  CHECK(nested(events, "layers.1.attention.wq", "aten::mm"));
  CHECK(nested(events, "backward", "aten::mm"));
}

TEST_CASE("collectives of a graph are in the trace by group and size, and backward ops under their module") {
  const Words way = GENERATE(Words{}, Words{"--compile.executor=interpreter"});
  const Place place;
  place.play(2, "run", kTraces + way);
  const std::vector<Event> events = events_of(place / "run/profile_traces/iteration_4/rank0_trace.json");
  const auto gathers = std::count_if(events.begin(), events.end(), [](const Event& event) {
    return event.name.starts_with("all_gather_into_tensor dp ") && event.name.ends_with(" bytes");
  });
  CHECK(gathers > 0);
  const bool in_backward = std::any_of(events.begin(), events.end(), [&](const Event& phase) {
    return phase.name == "backward" && std::any_of(events.begin(), events.end(), [&](const Event& module) {
             return module.name == "layers.1.attention.wq" && phase.holds(module) &&
                    nested(events, module.name, "aten::mm");
           });
  });
  CHECK(in_backward);
}

TEST_CASE("a window that the last step cuts off is written with the steps it has") {
  const Place place;
  place.play(1, "run", kTraces + steps(7));
  CHECK(files_below(place / "run/profile_traces") ==
        std::set<std::string>{"iteration_4/rank0_trace.json", "iteration_7/rank0_trace.json"});
  CHECK(count(events_of(place / "run/profile_traces/iteration_7/rank0_trace.json"), "train_step") == 1);
}

TEST_CASE("a profile changes no bit, and without one nothing is written") {
  const Place place;
  place.play(1, "plain", {"--training.steps=9", "--validation.enable=false"});
  place.play(1, "run", kTraces + Words{"--profiling.enable_memory_snapshot=true"});
  const ProgramResult same = place.compare("plain", "run");
  INFO(same.output);
  CHECK(same.exit_code == 0);
  for (const char* folder : {"profile_traces", "memory_snapshot", "comm_traces"})
    CHECK_FALSE(fs::exists(place / "plain" / folder));
}

TEST_CASE("a trace that cannot be written is a warning that names the file, and the run continues") {
  const Place place;
  fs::create_directories(place / "run");
  write_text(place / "run/traces", "a file where a folder must be");
  const ProgramResult run =
      rondo(place.train("run", kTraces + Words{"--profiling.save_traces_folder=traces"}));
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("traces/iteration_4/rank0_trace.json; the run continues without it"));
}

TEST_CASE("a memory snapshot names the users of memory") {
  const Place place;
  place.play(2, "run",
             {"--training.steps=5", "--profiling.enable_memory_snapshot=true", "--profiling.profile_freq=2"});
  CHECK(files_below(place / "run/memory_snapshot") ==
        std::set<std::string>{"iteration_2/rank0_memory.json", "iteration_2/rank1_memory.json",
                              "iteration_4/rank0_memory.json", "iteration_4/rank1_memory.json"});
  for (const int rank : {0, 1}) {
    const nlohmann::json file =
        json_of(place / "run/memory_snapshot" / fmt::format("iteration_4/rank{}_memory.json", rank));
    INFO(file);
    CHECK(file["step"] == 4);
    CHECK(file["rank"] == rank);
    CHECK(file["world_size"] == 2);
    const std::int64_t parameters = file["state"]["parameters"];
    CHECK(parameters > 0);
    CHECK(file["state"]["optimizer"] >= 2 * parameters);
    CHECK(file["process"]["rss_bytes"] > file["state"]["parameters"]);
    CHECK(file["process"]["pss_bytes"] <= file["process"]["rss_bytes"]);
    REQUIRE(file["functions"].size() == 2);  // train_step, validate
    const nlohmann::json step = file["functions"][0];
    CHECK(step["name"] == "train_step");
    CHECK(step["arena_bytes"] > 0);
    CHECK(step["peak"]["saved activations"] > 0);
    CHECK(step["inputs"]["parameters"] == parameters);
    CHECK_FALSE(step["saved_by_module"].empty());
    CHECK_FALSE(step["largest_at_peak"].empty());
    CHECK(file["tensors"]["peak_bytes"] >= file["tensors"]["live_bytes"]);
    CHECK(file["tensors"]["live_bytes"] >= step["total_bytes"]);
  }
}

TEST_CASE("a rank that runs out of memory in a step writes a snapshot of that step") {
  const Place place;
  // Everything except the logits fits: 4096 tokens of 250000 numbers.
  const Words words =
      Words{kRondo} + place.train("run", {"--profiling.enable_memory_snapshot=true", "--compile.enable=false",
                                          "--model.vocab_size=250000", "--training.seq_len=2048",
                                          "--validation.enable=false"});
  std::string command = "ulimit -v 4000000; exec";
  for (const std::string& word : words) command += " '" + word + "'";
  const ProgramResult run = run_program({"/bin/sh", "-c", command}, kRunTimeout_ms);
  INFO(run.output);
  CHECK(run.exit_code == 9);
  CHECK_THAT(run.output, ContainsSubstring("out of memory"));
  const nlohmann::json file = json_of(place / "run/memory_snapshot/iteration_1_exit/rank0_memory.json");
  CHECK_THAT(file["reason"].get<std::string>(), ContainsSubstring("out of memory"));
  CHECK(file["state"]["parameters"] > 0);
}

// Runs two ranks, stops or kills one of them, and returns the record of rank 0.
nlohmann::json trace_after(const Place& place, const Words& flags, int signal, launch::Finished& end) {
  const Mark mark;
  const Words words =
      place.launch(2, "run", Words{"--training.steps=1000000", "--comm.train_timeout_seconds=1"} + flags);
  Launch launcher(without_launch(words), {mark.setting()});
  REQUIRE(holds_soon([&] { return lines_of(place / "run" / "metrics.jsonl").size() >= 3; }));
  const std::vector<int> rank = mark.processes("RANK=1");
  REQUIRE(rank.size() == 1);
  kill(rank[0], signal);
  end = launcher.wait();
  CHECK(mark.all_gone());
  const fs::path file = place / "run/comm_traces/rank_0.json";
  return fs::exists(file) ? json_of(file) : nlohmann::json();
}

TEST_CASE("a rank that waits for one without progress records the collective and the module it waits for") {
  const Words way =
      GENERATE(Words{}, Words{"--compile.executor=interpreter"}, Words{"--compile.enable=false"});
  const Place place;
  launch::Finished end;
  const nlohmann::json file = trace_after(place, way, SIGSTOP, end);
  INFO(end.out << end.err << file.dump(1));
  CHECK(end.code == 7);
  CHECK_THAT(end.err, ContainsSubstring("; in progress: ") && ContainsSubstring("comm_traces/rank_0.json"));
  REQUIRE(file.is_object());
  CHECK(file["rank"] == 0);
  CHECK(file["step"].get<std::int64_t>() >= 3);
  const nlohmann::json& waits = file["under_way"];
  CHECK(waits["state"] == "waited_for");
  CHECK(waits["waited_s"].get<double>() >= 0.7);
  CHECK(waits["step"] == file["step"]);
  const nlohmann::json& entries = file["entries"];
  // The collectives of the first steps are recorded by module, each complete.
  const auto gathers = [&](const char* phase) {
    return std::count_if(entries.begin(), entries.end(), [&](const nlohmann::json& entry) {
      return entry["step"] == 2 && entry["collective"] == "all_gather" && entry["phase"] == phase &&
             entry["module"].get<std::string>().starts_with("layers.") && entry["state"] == "done";
    });
  };
  CHECK(gathers("forward") > 0);
  const bool sums = std::any_of(entries.begin(), entries.end(), [](const nlohmann::json& entry) {
    return entry["step"] == 2 && entry["collective"] == "reduce_scatter" && entry["phase"] == "backward" &&
           entry["group"] == "dp";
  });
  CHECK(sums);
}

TEST_CASE("the ranks that remain after a kill record their collectives in the configured folder") {
  const Place place;
  launch::Finished end;
  trace_after(
      place,
      {"--comm.save_traces_folder=traces", "--comm.save_traces_file_prefix=of_", "--comm.trace_buf_size=10"},
      SIGKILL, end);
  INFO(end.out << end.err);
  CHECK(end.code == 137);
  const nlohmann::json file = json_of(place / "run/traces/of_0.json");
  CHECK(file["entries"].size() == 10);
}

TEST_CASE("without a buffer there is no record of a lost rank") {
  const Place place;
  launch::Finished end;
  CHECK(trace_after(place, {"--comm.trace_buf_size=0"}, SIGSTOP, end).is_null());
  CHECK(end.code == 7);
  CHECK_FALSE(fs::exists(place / "run/comm_traces"));
}

}  // namespace
}  // namespace rondo

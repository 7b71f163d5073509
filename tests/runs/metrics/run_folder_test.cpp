#include "runs/metrics/run_folder.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runs/metrics/step_lines.h"
#include "runs/metrics/step_metrics.h"
#include "support/files/atomic_file.h"
#include "support/machine/machine.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

StepMetrics step_line(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 1.0 / static_cast<double>(step);
  return metrics;
}

// Gives this process its own mount table; for an ordinary user with a user namespace, where the
// kernel allows it.
bool enter_private_mounts() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace

TEST_CASE("a run folder has the configuration, the environment, events and the end") {
  const Scratch scratch;
  RunFolder run(scratch / "deep/run");
  run.begin({});
  run.write_config("[training]\nsteps = 20\n");
  run.write_environment({{"rondo", "train"}, {{"torch", "2.11.0"}}, {{"intra_op", 1}}});
  run.event("start");
  run.event("stop", {{"step", 3}, {"why", "asked to"}});
  run.write_exit({.exit_code = 8, .rank = 2, .reason = "step 3: loss is NaN"});

  CHECK(text_of(run.path() / "config.toml") == "[training]\nsteps = 20\n");
  const json environment = json::parse(text_of(run.path() / "env.json"));
  CHECK(environment["versions"]["torch"] == "2.11.0");
  CHECK(environment["threads"]["intra_op"] == 1);
  CHECK(environment["command_line"] == json{"rondo", "train"});
  CHECK(environment["affinity"] == core_list(read_machine().affinity));
  CHECK(environment["memory_bytes"] > 0);

  const auto events = lines_of(run.path() / "events.jsonl");
  REQUIRE(events.size() == 2);
  CHECK(json::parse(events[0])["event"] == "start");
  CHECK(json::parse(events[1])["step"] == 3);
  CHECK(json::parse(events[1])["time"].get<std::string>().size() ==
        std::string("2026-01-31T12:00:00.123Z").size());

  const json end = json::parse(text_of(run.path() / "exit.json"));
  CHECK(end["exit_code"] == 8);
  CHECK(end["signal"].is_null());
  CHECK(end["rank"] == 2);
  CHECK(end["reason"] == "step 3: loss is NaN");
  CHECK(end["by"] == "rank");
  CHECK(end.contains("ended_at"));
  CHECK(fs::is_directory(run.graph_folder()));
  CHECK(fs::is_directory(run.tensorboard_folder()));
}

TEST_CASE("environment variables that affect numbers are recorded") {
  const Scratch scratch;
  setenv("OMP_NUM_THREADS", "3", 1);
  RunFolder run(scratch / "run");
  run.begin({});
  run.write_environment({});
  CHECK(json::parse(text_of(run.path() / "env.json"))["variables"]["OMP_NUM_THREADS"] == "3");
}

TEST_CASE("earlier runs in the folder are kept separate and complete") {
  const Scratch scratch;
  for (int run_number = 1; run_number <= 3; ++run_number) {
    RunFolder run(scratch / "run");
    run.begin({});
    CHECK(run.previous().has_value() == (run_number > 1));
    write_text(run.path() / "logs/kept.txt", "not a file of the run");
    write_text(run.graph_folder() / "step.ir", "graph " + std::to_string(run_number));
    StepMetricsWriter(run.metrics_file()).write(step_line(run_number));
    write_text(run.path() / "rank_1.crash.txt", "rank 1 of run " + std::to_string(run_number));
    run.write_exit({});
  }
  CHECK(fs::exists(scratch / "run/logs/kept.txt"));
  for (int run_number = 1; run_number <= 3; ++run_number) {
    const fs::path folder =
        run_number == 3 ? scratch / "run" : scratch / ("run/previous-" + std::to_string(run_number));
    CHECK(text_of(folder / "graph/step.ir") == "graph " + std::to_string(run_number));
    CHECK(lines_of(folder / "metrics.jsonl") == std::vector{to_json(step_line(run_number))});
    CHECK(fs::exists(folder / "exit.json"));
    CHECK(text_of(folder / "rank_1.crash.txt") == "rank 1 of run " + std::to_string(run_number));
  }
}

TEST_CASE("a refused start leaves no trace, and removes the folder that it created") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  { RunFolder refused(folder); }
  CHECK_FALSE(fs::exists(folder));
  {
    RunFolder run(folder);
    run.begin({});
    run.write_config("steps = 20\n");
    run.write_exit({.exit_code = 0, .reason = "finished"});
  }
  const std::string end = text_of(folder / "exit.json");
  { RunFolder refused(folder); }
  CHECK(text_of(folder / "exit.json") == end);
  CHECK(fs::exists(folder / "config.toml"));
  CHECK_FALSE((fs::exists(folder / "previous-1") || fs::exists(folder / ".lock")));
}

TEST_CASE("a resumed run continues its files, and keeps the earlier configuration next to a new one") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  {
    RunFolder run(folder);
    run.begin({});
    run.write_config("steps = 2\n");
    run.event("start");
    StepMetricsWriter metrics(run.metrics_file());
    for (int step = 1; step <= 3; ++step) metrics.write(step_line(step));
    write_text(run.graph_folder() / "old.ir", "graph");
    run.write_exit({.exit_code = 75, .reason = "saved"});
  }
  write_text(folder / "events.jsonl", text_of(folder / "events.jsonl") + "{\"torn");
  RunFolder run(folder);
  run.begin(Resumed{2, ""});
  CHECK_THAT(run.earlier_end(), ContainsSubstring("ended with 75 at ") && ContainsSubstring("Z: saved"));
  run.write_config("steps = 4\n");
  run.event("start");
  CHECK(text_of(folder / "config.toml") == "steps = 4\n");
  CHECK(text_of(folder / "config.to_step_2.toml") == "steps = 2\n");
  CHECK(lines_of(folder / "events.jsonl").size() == 2);
  CHECK_FALSE(fs::exists(folder / "exit.json"));
  CHECK_FALSE(fs::exists(folder / "graph/old.ir"));
  CHECK_FALSE(fs::exists(folder / "previous-1"));

  StepMetricsWriter metrics(run.metrics_file());
  const EarlierSteps earlier = go_on_after(2, metrics.file());
  CHECK(earlier.last_kept == 2);
  CHECK(earlier.last == 3);
  metrics.write(step_line(3));
  CHECK(lines_of(run.metrics_file()) ==
        std::vector{to_json(step_line(1)), to_json(step_line(2)), to_json(step_line(3))});
  CHECK(lines_of(folder / "metrics.superseded.jsonl") == std::vector{to_json(step_line(3))});
}

TEST_CASE("a start reports that the previous run was killed") {
  const Scratch scratch;
  const pid_t child = fork();
  if (child == 0) {
    RunFolder run(scratch / "run");
    run.begin({});
    run.event("start");
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  RunFolder run(scratch / "run");
  run.begin({});
  CHECK_THAT(
      run.earlier_end(),
      ContainsSubstring("was killed, or its machine went down: it left no exit.json; its last line is of "));
  CHECK(run.previous() == scratch / "run/previous-1");
}

TEST_CASE("links with the names of a run's files and temporary files are not followed") {
  const Scratch scratch;
  write_text(scratch / "victim", "PRECIOUS");
  fs::create_directory(scratch / "run");
  for (const char* name : {".config.toml.part", ".env.json.part", ".exit.json.part"})
    fs::create_symlink(scratch / "victim", scratch / "run" / name);
  fs::create_hard_link(scratch / "victim", scratch / "run/config.toml");
  {
    RunFolder run(scratch / "run");
    run.begin({});
    run.write_config("steps = 1\n");
    run.write_environment({});
    run.write_exit({});
  }
  CHECK(text_of(scratch / "victim") == "PRECIOUS");
  CHECK(text_of(scratch / "run/config.toml") == "steps = 1\n");
  fs::create_symlink(scratch / "victim", scratch / "lines.jsonl");
  CHECK_THAT(error_of([&] { AppendFile file(scratch / "lines.jsonl"); }),
             ContainsSubstring("6: cannot open " + (scratch / "lines.jsonl").string()));
}

TEST_CASE("a second run in a folder that a live run writes is refused") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  const RunFolder run(folder);
  CHECK(error_of([&] { RunFolder second(folder); }) ==
        "6: job.dump_folder = \"" + folder.string() +
            "\" is being written by another run that is still alive; choose another folder");
}

TEST_CASE("a killed run releases its lock") {
  const Scratch scratch;
  const pid_t child = fork();
  if (child == 0) {
    RunFolder run(scratch / "run");
    run.begin({});
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  CHECK(error_of([&] { RunFolder run(scratch / "run"); }) == "no error");
}

TEST_CASE("a run folder that is a file is refused") {
  const Scratch scratch;
  write_text(scratch / "taken", "text");
  CHECK(error_of([&] { RunFolder run(scratch / "taken"); }) ==
        "6: job.dump_folder = \"" + (scratch / "taken").string() +
            "\" is a file, not a folder; choose another folder");
  CHECK_THAT(error_of([&] { RunFolder run(scratch / "taken/below"); }),
             ContainsSubstring("cannot be created (Not a directory)"));
  CHECK(text_of(scratch / "taken") == "text");
}

TEST_CASE("a run folder that may not be written is refused") {
  const Scratch scratch;
  fs::permissions(scratch.root(), fs::perms(0755));
  fs::create_directory(scratch / "closed");
  fs::permissions(scratch / "closed", fs::perms(0555));
  const auto as_ordinary_user = [&](const fs::path& folder) {
    return in_child([&] {
      constexpr uid_t kNobody = 65534;
      if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return std::string("no other user");
      return error_of([&] { RunFolder run(folder); });
    });
  };
  CHECK(as_ordinary_user(scratch / "closed") ==
        "6: job.dump_folder = \"" + (scratch / "closed").string() +
            "\" cannot be written to (Permission denied); choose another folder");
  fs::permissions(scratch / "closed", fs::perms(0777));
  write_text(scratch / "closed/.lock", "");  // of another user
  fs::permissions(scratch / "closed/.lock", fs::perms(0));
  CHECK(as_ordinary_user(scratch / "closed") ==
        "6: job.dump_folder = \"" + (scratch / "closed").string() +
            "\" cannot be opened (Permission denied); choose another folder");
  fs::permissions(scratch / "closed/.lock", fs::perms(0444));
  CHECK(as_ordinary_user(scratch / "closed") == "no error");
  fs::permissions(scratch / "closed", fs::perms(0555));
  CHECK(as_ordinary_user(scratch / "closed/run") ==
        "6: job.dump_folder = \"" + (scratch / "closed/run").string() +
            "\" cannot be created (Permission denied); choose another folder");
}

TEST_CASE("what a full device refuses waits in memory, and is finally an error that names the file") {
  AppendFile file("/dev/full");
  const std::string line(1023, 'x');
  for (std::int64_t kept = 0; kept < AppendFile::kMaxKept; kept += 1024) {
    file.append(line + "\n");
    CHECK(file.trouble().empty());
  }
  file.append("line\n");
  CHECK(file.trouble() ==
        "cannot write /dev/full: No space left on device; free space or raise the limit, then start again");
}

TEST_CASE("a record may exceed the limit of waiting bytes, and sixteen of them wait") {
  AppendFile file("/dev/full");
  for (std::int64_t kept = 1; kept <= AppendFile::kRecordsKept + 1; ++kept) {
    file.append(std::string(200 << 10, 'x'));
    CHECK(file.trouble().empty() == (kept <= AppendFile::kRecordsKept));
  }
}

TEST_CASE("a file that cannot be opened is an environment error that names it") {
  CHECK(error_of([&] { AppendFile file("/no/such/folder/metrics.jsonl"); }) ==
        "6: cannot open /no/such/folder/metrics.jsonl: No such file or directory; check its permissions, or "
        "choose another job.dump_folder");
}

TEST_CASE("a line that the disk truncates is removed, and written when there is room again") {
  const Scratch scratch;
  const std::string line(299, 'x');
  const std::string seen = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    AppendFile file(scratch / "metrics.jsonl");
    for (int i = 0; i < 4; ++i) file.append(line + "\n");
    const std::size_t whole = text_of(scratch / "metrics.jsonl").size();
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    file.append(line + "\n");
    return fmt::format("{} {} \"{}\"", whole, lines_of(scratch / "metrics.jsonl").size(), file.trouble());
  });
  CHECK(seen == "900 5 \"\"");
  CHECK(lines_of(scratch / "metrics.jsonl") == std::vector(5, line));
}

TEST_CASE("on a full disk the metrics end in complete lines and exit.json is still written") {
  const Scratch scratch;
  fs::create_directory(scratch / "small");
  const std::string outcome = in_child([&]() -> std::string {
    if (!enter_private_mounts()) return "skip";
    if (mount("tmpfs", (scratch / "small").c_str(), "tmpfs", 0, "size=64k") != 0) return "skip";
    RunFolder run(scratch / "small/run");
    run.begin({});
    StepMetricsWriter writer(run.metrics_file());
    for (std::int64_t step = 1; writer.file().trouble().empty(); ++step) writer.write(step_line(step));
    const std::string error = writer.file().trouble();
    write_text(scratch / "small/filler", std::string(1 << 20, 'x'));
    run.write_exit({.exit_code = 9, .rank = 0, .reason = error});
    const std::string text = text_of(run.metrics_file());
    const auto lines = lines_of(run.metrics_file());
    for (const std::string& line : lines) parse_step_metrics(line);
    const bool whole = text.back() == '\n' && lines.size() > 10;
    return fmt::format("whole lines: {}; {}", whole,
                       json::parse(text_of(run.path() / "exit.json"))["reason"].get<std::string>());
  });
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  CHECK(outcome == "whole lines: true; cannot write " + (scratch / "small/run/metrics.jsonl").string() +
                       ": No space left on device; free space or raise the limit, then start again");
}

TEST_CASE("a run folder on a full disk is a resource error") {
  const Scratch scratch;
  fs::create_directory(scratch / "small");
  const std::string outcome = in_child([&]() -> std::string {
    if (!enter_private_mounts()) return "skip";
    if (mount("tmpfs", (scratch / "small").c_str(), "tmpfs", 0, "size=64k,nr_inodes=2") != 0) return "skip";
    fs::create_directory(scratch / "small/run");
    return error_of([&] { RunFolder(scratch / "small/run").begin({}); }) + "\n" +
           error_of([&] { RunFolder run(scratch / "small/other"); });
  });
  if (outcome == "skip") SKIP("private mounts are not permitted here");
  CHECK_THAT(outcome, ContainsSubstring("9: cannot open " + (scratch / "small/run").string() +
                                        ": No space left on device"));
  CHECK_THAT(outcome,
             ContainsSubstring("\n9: cannot create " + (scratch / "small/other").string() +
                               ": No space left on device; free space or raise the limit, then start again"));
}

TEST_CASE("a writer killed at any time leaves complete lines, and at most the beginning of one more") {
  const Scratch scratch;
  std::size_t lines_seen = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const fs::path file = scratch / fmt::format("metrics-{}.jsonl", attempt);
    const pid_t child = fork();
    if (child == 0) {
      StepMetricsWriter writer(file);
      for (std::int64_t step = 1;; ++step) writer.write(step_line(step));
    }
    while (!fs::exists(file) || fs::file_size(file) < 1000u * (attempt + 1)) usleep(100);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::string text = text_of(file);
    const std::string torn = text.substr(text.rfind('\n') + 1);
    text.resize(text.size() - torn.size());
    std::int64_t step = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(parse_step_metrics(line).step == ++step);
    CHECK(to_json(step_line(step + 1)).starts_with(torn));
    lines_seen += static_cast<std::size_t>(step);
  }
  CHECK(lines_seen > 100);
}

TEST_CASE("replacing a file shows the old text or the new one, never a part") {
  const Scratch scratch;
  const fs::path file = scratch / "exit.json";
  replace_file(file, "a longer first text", FileUse::run);
  replace_file(file, "second", FileUse::run);
  CHECK(text_of(file) == "second");
  CHECK(std::distance(fs::directory_iterator(scratch.root()), fs::directory_iterator()) == 1);
}

TEST_CASE("cores are listed as ranges") {
  CHECK(core_list({}) == "");
  CHECK(core_list({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(core_list({5}) == "5");
}

TEST_CASE("cpuinfo is read by whole keys") {
  const std::string text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: avx2 fma\nbugs\t:\n";
  CHECK(cpuinfo_value(text, "model name") == "Some CPU @ 2 GHz");
  CHECK(cpuinfo_value(text, "model").empty());
  CHECK(cpuinfo_value(text, "flags") == "avx2 fma");
  CHECK(cpuinfo_value(text, "bugs").empty());
}

}  // namespace rondo

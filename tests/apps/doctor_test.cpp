// `rondo doctor` through the real program, copied beside made-up workers.
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "apps/rondo/doctor_checks.h"
#include "apps/rondo/run_program.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

// The program in a folder of its own, with a shell script for a worker.
struct Installation {
  Scratch scratch;
  fs::path program = scratch / "rondo";

  explicit Installation(const std::string& worker_script) {
    fs::copy_file(RONDO_BINARY_DIR "/rondo", program);
    if (worker_script.empty()) return;
    write_text(scratch / "rondo-worker", "#!/bin/sh\n" + worker_script + "\n");
    fs::permissions(scratch / "rondo-worker", fs::perms(0755));
  }
  ProgramResult doctor(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words = {program.string(), "doctor"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_program(words, 60'000);
  }
};

nlohmann::json finding(const ProgramResult& result, const std::string& subject) {
  const nlohmann::json report = nlohmann::json::parse(result.output);
  for (const auto& found : report.at("findings"))
    if (found.at("subject") == subject) return found;
  return {};
}

}  // namespace

TEST_CASE("doctor is content with a worker that answers") {
  const Installation installation("echo \"$0 $1\" > /dev/null; echo 'rondo-worker 0.1.0 LibTorch 2.11.0'");
  const ProgramResult result = installation.doctor();
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("ok       worker       rondo-worker 0.1.0 LibTorch 2.11.0\n"));
  CHECK_THAT(result.output, ContainsSubstring("\nTraining on CPU can work here.\n"));
}

TEST_CASE("doctor asks the worker for its version") {
  const Installation installation("test \"$*\" = --version && echo yes");
  CHECK(finding(installation.doctor({"--json"}), "worker").at("detail") == "yes");
}

TEST_CASE("doctor ends with 6 where the worker is missing and says what to type") {
  const Installation installation("");
  const ProgramResult result = installation.doctor();
  CHECK(result.exit_code == 6);
  CHECK_THAT(result.output,
             ContainsSubstring("missing  worker       " + (installation.scratch / "rondo-worker").string() +
                               " does not exist\n"));
  CHECK_THAT(result.output, ContainsSubstring("-> scripts/setup.sh, then build again\n"));
  CHECK_THAT(result.output,
             ContainsSubstring("\nTraining cannot work here yet; see the lines with \"missing\".\n"));
}

TEST_CASE("doctor shows why a worker cannot load its libraries") {
  const Installation installation(
      "echo 'rondo-worker: error while loading shared libraries: libtorch_cpu.so: cannot open' >&2; exit "
      "127");
  const ProgramResult result = installation.doctor({"--json"});
  CHECK(result.exit_code == 6);
  const auto worker = finding(result, "worker");
  CHECK(worker.at("status") == "missing");
  CHECK_THAT(worker.at("detail").get<std::string>(),
             ContainsSubstring("ended with 127: rondo-worker: error while "
                               "loading shared libraries: libtorch_cpu.so"));
  CHECK(worker.at("advice") == "LibTorch was moved or is incomplete: scripts/setup.sh, then build again");
}

TEST_CASE("doctor gives up on a worker that does not answer") {
  const Installation installation("sleep 1000");
  const Finding worker = examine(installation.scratch.root(), installation.scratch.root(), 200).front();
  CHECK(worker.health == Health::missing);
  CHECK(worker.detail == (installation.scratch / "rondo-worker").string() + " did not answer in 0.2 s");
  CHECK(worker.advice == "the machine may be overloaded; run it yourself: rondo-worker --version");
}

TEST_CASE("doctor names a worker that an illegal instruction kills") {
  const Installation installation("kill -ILL $$");
  const auto worker = finding(installation.doctor({"--json"}), "worker");
  CHECK_THAT(worker.at("detail").get<std::string>(), ContainsSubstring("ended with 132"));
  CHECK_THAT(worker.at("advice").get<std::string>(), ContainsSubstring("build again on this machine"));
}

TEST_CASE("doctor says so where the worker may not be started") {
  const Installation installation("true");
  fs::permissions(installation.scratch / "rondo-worker", fs::perms(0644));
  CHECK_THAT(finding(installation.doctor({"--json"}), "worker").at("detail").get<std::string>(),
             ContainsSubstring("cannot be started: Permission denied"));
}

TEST_CASE("doctor advises on few open files") {
  const Installation installation("echo fine");
  const std::string output = in_child([&] {
    const rlimit limit{256, 512};
    setrlimit(RLIMIT_NOFILE, &limit);
    return installation.doctor({"--json"}).output;
  });
  const auto files = finding({.output = output}, "open files");
  CHECK(files.at("status") == "warning");
  CHECK(files.at("detail") == "512");
  CHECK(files.at("advice") == "raise the hard limit (ulimit -Hn 65536, as root)");
}

TEST_CASE("doctor misses the default corpus and finds it") {
  const Installation installation("echo fine");
  const auto corpus = [&] {
    return in_child([&] {
      if (chdir(installation.scratch.root().c_str()) != 0) return std::string("chdir failed");
      return finding(installation.doctor({"--json"}), "corpus").at("status").get<std::string>();
    });
  };
  CHECK(corpus() == "warning");
  write_text(installation.scratch / "data/corpus/a.txt", "text");
  CHECK(corpus() == "ok");
}

TEST_CASE("an unknown argument of doctor ends with 2") {
  const Installation installation("");
  const ProgramResult result = installation.doctor({"--jsno"});
  CHECK(result.exit_code == 2);
  CHECK(result.output ==
        "rondo: error: doctor: unknown flag --jsno (did you mean --json?); `rondo doctor --help` lists the "
        "flags\n");
  CHECK(installation.doctor({"--help"}).exit_code == 0);
}

TEST_CASE("a program that takes too long is killed with what it started") {
  const ProgramResult result = run_program({"/bin/sh", "-c", "echo begun; sleep 1000 | sleep 1000"}, 300);
  CHECK(result.started);
  CHECK(result.timed_out);
  CHECK(result.output == "begun\n");
  CHECK(result.exit_code == 137);
}

TEST_CASE("a program that does not exist is not started") {
  const ProgramResult result = run_program({"/no/such/program"}, 1000);
  CHECK_FALSE(result.started);
  CHECK(result.output == "No such file or directory");
}

}  // namespace rondo

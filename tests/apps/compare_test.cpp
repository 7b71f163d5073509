// `rondo compare` through the real program, with made-up run folders.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/rondo/run_program.h"
#include "runs/compare_runs.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

struct TwoRuns {
  Scratch scratch;
  std::vector<StepMetrics> a = steps(1, 20), b = a;
  std::string config_b = kConfig;

  ProgramResult compare(std::vector<std::string> flags = {}) {
    write_run(scratch / "a", a, kConfig);
    write_run(scratch / "b", b, config_b);
    std::vector<std::string> words = {RONDO_BINARY_DIR "/rondo", "compare", (scratch / "a").string(),
                                      (scratch / "b").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_program(words, 60'000);
  }
};

ProgramResult compare_words(std::vector<std::string> words) {
  words.insert(words.begin(), {RONDO_BINARY_DIR "/rondo", "compare"});
  return run_program(words, 60'000);
}

}  // namespace

TEST_CASE("equal runs are equal bit for bit and end with 0") {
  TwoRuns runs;
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 0);
  CHECK(result.output == "A: " + (runs.scratch / "a").string() + "\nB: " + (runs.scratch / "b").string() +
                             "\nequal bit for bit on 20 steps (loss, grad_norm, lr; state_hash on 20)\n\n"
                             "                                               A             B       B/A\n"
                             "  loss at 20.0 k tokens                   6.0500        6.0500     1.000\n"
                             "  tokens/s (median)                       2000.0        2000.0     1.000\n"
                             "  step time ms (median)                   500.00        500.00     1.000\n"
                             "  peak memory GiB                         0.2500        0.2500     1.000\n"
                             "no run is better: A and B have the same loss\n");
}

TEST_CASE("the first step and quantity that differ by one bit are named and end with 1") {
  TwoRuns runs;
  runs.b[6].grad_norm = std::nextafter(1.5, 2.0);
  runs.b[9].loss = 1;
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output,
             ContainsSubstring("different: step 7 is the first that differs, in grad_norm: A 1.5, "
                               "B 1.5000000000000002 (relative difference 1.48e-16)\n"));
}

TEST_CASE("values of fp32 are shown in their shortest form") {
  TwoRuns runs;
  runs.a[4].lr = 1e-3F, runs.b[4].lr = 3e-5F;
  CHECK_THAT(runs.compare().output, ContainsSubstring("differs, in lr: A 0.001, B 3e-05 (relative"));
}

TEST_CASE("the sign of zero is a difference and NaN equals NaN") {
  TwoRuns runs;
  runs.a[0].loss = runs.b[0].loss = std::nan("");
  runs.a[1].lr = 0.0;
  runs.b[1].lr = -0.0;
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, ContainsSubstring("step 2 is the first that differs, in lr: A 0.0, B -0.0"));
}

TEST_CASE("a state hash that differs is a difference") {
  TwoRuns runs;
  runs.b[3].state_hash = "00000000deadbeef";
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, ContainsSubstring("step 4 is the first that differs, in state_hash: "
                                              "A 0000000000007bbc, B 00000000deadbeef\n"));
}

TEST_CASE("hashes are compared only where both runs have them") {
  TwoRuns runs;
  for (std::size_t i = 5; i < 20; ++i) runs.b[i].state_hash.reset();
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("state_hash on 5)"));
}

TEST_CASE("missing steps are listed and end with 1") {
  TwoRuns runs;
  runs.b = steps(3, 22);
  runs.b.erase(runs.b.begin() + 7);
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 1);
  CHECK_THAT(
      result.output,
      ContainsSubstring("different: equal bit for bit on 17 steps (loss, grad_norm, lr; state_hash on 17), "
                        "but not the same steps\nsteps missing in B: 1-2, 10\nsteps missing in A: 21-22\n"));
}

TEST_CASE("runs without a common step are different") {
  TwoRuns runs;
  runs.b = steps(30, 31);
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, ContainsSubstring("different: the runs share no step\n"));
}

TEST_CASE("a tolerance covers loss and grad_norm, not lr, and ignores hashes") {
  TwoRuns runs;
  runs.b[4].loss *= 1 + 1e-7;
  runs.b[5].state_hash = "0";
  const ProgramResult near = runs.compare({"--tolerance", "1e-6"});
  CHECK(near.exit_code == 0);
  CHECK_THAT(near.output, ContainsSubstring("equal within a relative tolerance of 1e-06 on 20 steps (loss, "
                                            "grad_norm, lr)\n"));
  CHECK(runs.compare({"--tolerance=1e-8"}).exit_code == 1);
  runs.b[0].lr = std::nextafter(1e-3, 1.0);
  CHECK_THAT(runs.compare({"--tolerance", "1e-6"}).output,
             ContainsSubstring("step 1 is the first that differs, in lr"));
}

TEST_CASE("a tolerance lets no NaN or infinity through") {
  TwoRuns runs;
  runs.b[4].loss = std::nan("");
  CHECK(runs.compare({"--tolerance=1"}).exit_code == 1);
  runs.b[4].loss = INFINITY;
  CHECK(runs.compare({"--tolerance=0.5"}).exit_code == 1);
}

TEST_CASE("configuration differences are listed by key") {
  TwoRuns runs;
  runs.config_b = "[training]\nsteps = 30\ndataset = \"text\"\nseed = 1\n[compile]\nenable = false\n";
  const ProgramResult result = runs.compare();
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output,
             ContainsSubstring("\nconfiguration:\n  compile.enable: A true, B false\n"
                               "  training.seed: A (absent), B 1\n  training.steps: A 20, B 30\n"));
}

TEST_CASE("numbers of the configuration have the digits that people write") {
  TwoRuns runs;
  runs.config_b = "[optimizer]\nlr = 0.003\n";
  CHECK_THAT(runs.compare().output, ContainsSubstring("\n  optimizer.lr: A (absent), B 0.003\n"));
}

TEST_CASE("a run without config.toml is compared and the gap is said") {
  TwoRuns runs;
  runs.compare();
  fs::remove(runs.scratch / "b/config.toml");
  const ProgramResult result = compare_words({(runs.scratch / "a").string(), (runs.scratch / "b").string()});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("no config.toml in " + (runs.scratch / "b").string() +
                                              ": configurations not compared\n"));
}

TEST_CASE("speed leaves the warm-up out") {
  TwoRuns runs;
  for (std::size_t i = 1; i < 20; ++i) runs.b[i].tokens_per_s = 3000;
  runs.b[0].memory_gib = 0.5;
  const ProgramResult result = runs.compare();
  CHECK_THAT(result.output, ContainsSubstring("2000.0        3000.0     1.500"));
  CHECK_THAT(result.output, ContainsSubstring("0.2500        0.5000     2.000"));
}

TEST_CASE("of two runs the one with the lower validation loss at equal tokens is better") {
  TwoRuns runs;
  runs.a[9].validation_loss = runs.a[19].validation_loss = 5.0;
  runs.b.resize(15);
  runs.b[14].validation_loss = 4.5;
  const ProgramResult result = runs.compare();
  CHECK_THAT(result.output,
             ContainsSubstring("  validation at 15.0 k tokens             5.0000        4.5000     0.900\n"));
  CHECK_THAT(result.output,
             ContainsSubstring("better: B, whose validation loss of 4.5000 is 0.5 (10 %) below A's\n"));
}

TEST_CASE("three runs are ranked, and each is compared with the first bit for bit") {
  const Scratch scratch;
  std::vector<StepMetrics> slower = steps(1, 20), better = slower;
  for (StepMetrics& line : better) line.loss -= 1;
  write_run(scratch / "a", slower, kConfig);
  write_run(scratch / "b", slower, kConfig);
  write_run(scratch / "c", better, "[training]\nsteps = 30\n");
  const auto words = [&](std::vector<std::string> flags) {
    for (const char* run : {"c", "b", "a"}) flags.insert(flags.begin(), (scratch / run).string());
    return compare_words(flags);
  };
  const ProgramResult result = words({});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, ContainsSubstring("B against A: equal bit for bit on 20 steps (loss"));
  CHECK_THAT(
      result.output,
      ContainsSubstring("C against A: different: step 1 is the first that differs, in loss: A 7.9, C 6.9"));
  CHECK_THAT(
      result.output,
      ContainsSubstring("\n  C          5.0500           -      2000.0     1.000      500.00      0.2500\n"
                        "  A          6.0500"));
  CHECK_THAT(result.output, ContainsSubstring("better: C, whose loss of 5.0500 is 1 (17 %) below A's\n"));
  CHECK_THAT(result.output, ContainsSubstring("  training.steps: A 20, B 20, C 30\n"));
  const auto json = nlohmann::json::parse(words({"--json"}).output);
  CHECK(json["best_first"] == nlohmann::json({2, 0, 1}));
  CHECK(json["runs"][1]["beside_first"]["equal"] == true);
  CHECK(json["runs"][2]["beside_first"]["equal"] == false);
}

TEST_CASE("paths that are no runs are left out with a warning where enough runs are given") {
  TwoRuns runs;
  write_text(runs.scratch / "c.log", "no run");
  const ProgramResult result = runs.compare({(runs.scratch / "c.log").string()});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("left out: ") && ContainsSubstring("c.log: is not a folder") &&
                                ContainsSubstring("equal bit for bit on 20 steps"));
  const ProgramResult alone =
      compare_words({(runs.scratch / "a").string(), (runs.scratch / "c.log").string()});
  CHECK(alone.exit_code == 4);
  const ProgramResult report = run_program({RONDO_BINARY_DIR "/rondo", "report", "--text",
                                            (runs.scratch / "c.log").string(), (runs.scratch / "b").string()},
                                           60'000);
  CHECK(report.exit_code == 0);
  CHECK_THAT(report.output, ContainsSubstring("left out: ") && ContainsSubstring("b: running"));
}

TEST_CASE("compare --json says the same to a program") {
  TwoRuns runs;
  runs.b[6].loss = 1;
  runs.b.pop_back();
  runs.config_b = "[training]\nsteps = 30\n";
  const ProgramResult result = runs.compare({"--json"});
  CHECK(result.exit_code == 1);
  const auto json = nlohmann::json::parse(result.output);
  CHECK(json["equal"] == false);
  const auto& beside = json["runs"][1]["beside_first"];
  CHECK(beside["first_difference"]["step"] == 7);
  CHECK(beside["first_difference"]["quantity"] == "loss");
  CHECK(beside["missing_in_b"] == nlohmann::json{20});
  CHECK(json["config"]["training.steps"] == nlohmann::json({"20", "30"}));
  CHECK(json["runs"][0]["tokens_per_s"] == 2000);
}

TEST_CASE("misuse of compare ends with 2 and says how it is used") {
  const auto complaint = [](std::vector<std::string> words) {
    const ProgramResult result = compare_words(std::move(words));
    CHECK(result.exit_code == 2);
    return result.output;
  };
  const std::string usage = "; `rondo compare --help` lists the flags\n";
  CHECK(complaint({"a"}) == "rondo: error: compare: RUN_B is missing" + usage);
  CHECK(complaint({"a", "b", "--jsn"}) ==
        "rondo: error: compare: unknown flag --jsn (did you mean --json?)" + usage);
  CHECK(complaint({"a", "b", "--tolerance"}) == "rondo: error: compare: --tolerance needs a value" + usage);
  for (const char* bad : {"x", "-1", "nan", "inf", "1e-5x", ""}) {
    CAPTURE(bad);
    CHECK(complaint({"a", "b", std::string("--tolerance=") + bad}) ==
          "rondo: error: compare: --tolerance \"" + std::string(bad) + "\" must be a number from 0 on" +
              usage);
  }
}

TEST_CASE("compare --help ends with 0") {
  const ProgramResult result = compare_words({"--help"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, StartsWith("rondo compare RUN_A RUN_B [RUN...] [--json] [--tolerance REL]\n"));
}

TEST_CASE("a missing or damaged run folder ends with 4 and names file and line") {
  TwoRuns runs;
  runs.compare();
  const std::string a = (runs.scratch / "a").string(), b = (runs.scratch / "b").string();
  const auto complaint = [&] {
    const ProgramResult result = compare_words({a, b});
    CHECK(result.exit_code == 4);
    return result.output;
  };
  const fs::path metrics = runs.scratch / "b/metrics.jsonl";
  const std::string whole = text_of(metrics), one = whole.substr(0, whole.find('\n') + 1);

  write_text(metrics, one + "{\"step\":2,\"loss\":}\n");
  CHECK_THAT(complaint(),
             StartsWith("rondo: error: " + b + "/metrics.jsonl:2: parse error at line 1, column 18"));
  write_text(metrics, one + "{\"step\":2}\n");
  CHECK(complaint() == "rondo: error: " + b + "/metrics.jsonl:2: \"loss\" is missing\n");
  write_text(metrics, one + one);
  CHECK(complaint() == "rondo: error: " + b + "/metrics.jsonl:2: step 1 follows step 1; steps must ascend\n");
  write_text(metrics, whole.substr(0, whole.size() - 10));
  CHECK(complaint() ==
        "rondo: error: " + b +
            "/metrics.jsonl:20: the last line is cut off (no newline); delete it to compare the rest\n");
  write_text(metrics, "");
  CHECK(complaint() ==
        "rondo: error: " + b + "/metrics.jsonl: has no steps; the run ended before its first one\n");
  write_text(metrics, whole);
  write_text(runs.scratch / "b/config.toml", "[training]\nsteps = \n");
  CHECK_THAT(complaint(), StartsWith("rondo: error: " + b + "/config.toml:2:9: "));
  fs::remove(metrics);
  CHECK(complaint() ==
        "rondo: error: " + b +
            "/metrics.jsonl: cannot be opened; is this the folder of a run (job.dump_folder)?\n");
  fs::remove_all(runs.scratch / "b");
  CHECK(complaint() ==
        "rondo: error: " + b + ": is not a folder; give the folder of a run (job.dump_folder)\n");
}

TEST_CASE("damaged run folders are data errors whatever the bytes") {
  const Scratch scratch;
  write_run(scratch / "run", steps(1, 5), kConfig);
  const std::string metrics = text_of(scratch / "run/metrics.jsonl");
  std::mt19937 random(20260131);
  int refused = 0;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string metrics_bytes = metrics, config_bytes = kConfig;
    std::string& damaged = attempt % 3 == 0 ? config_bytes : metrics_bytes;
    for (int hit = 0; hit < 3; ++hit) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 20);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20));
      }
    }
    write_text(scratch / "run/metrics.jsonl", metrics_bytes);
    write_text(scratch / "run/config.toml", config_bytes);
    const std::string error = error_of([&] { read_run(scratch / "run"); });
    if (error != "no error") ++refused;
    if (error != "no error" && error.rfind("4: ", 0) != 0)
      FAIL(error << "\n" << metrics_bytes << config_bytes);
  }
  CHECK(refused > 300);
}

TEST_CASE("a deeply nested line is refused without harm") {
  const Scratch scratch;
  write_text(scratch / "run/metrics.jsonl", "{\"a\":" + std::string(1'000'000, '[') + "\n");
  CHECK_THAT(error_of([&] { read_run(scratch / "run"); }),
             ContainsSubstring("metrics.jsonl:1: nested deeper than 512"));
}

}  // namespace rondo

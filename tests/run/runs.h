// Runs the real program on a tiny model and a small corpus; shared by the tests of whole runs.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/rondo/run_program.h"
#include "tests/run/rank_pool.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {

using Words = std::vector<std::string>;

inline const std::string kRondo = RONDO_BINARY_DIR "/rondo";
inline constexpr int kRunTimeout_ms = 300'000;  // against a hang, far above the time of a run

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Saves only when a run is requested to end.
inline const Words kSavesAtTheEnd = {"--checkpoint.enable=true", "--checkpoint.interval=1000000",
                                     "--lr_scheduler.total_steps=1000000"};

inline Words steps(int count) { return {fmt::format("--training.steps={}", count)}; }

inline ProgramResult rondo(const Words& words) { return run_program(Words{kRondo} + words, kRunTimeout_ms); }

inline ProgramResult must_end_well(const Words& words) {
  ProgramResult run = rondo(words);
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  return run;
}

// A folder with a corpus, a configuration and the runs of one test.
class Place {
 public:
  explicit Place(const std::string& model = kTinyLlama) {
    write_corpus();
    write_text(scratch_ / "tiny.toml", model + kTinyRun);
  }

  std::filesystem::path operator/(const std::string& name) const { return scratch_ / name; }
  const std::filesystem::path& root() const { return scratch_.root(); }

  // Returns the flags of a run with the tiny configuration, into the run folder `name`. Later
  // flags win.
  Words flags(const std::string& name, const Words& more = {}) const {
    return Words{(scratch_ / "tiny.toml").string(),
                 "--training.dataset_path=" + (scratch_ / "corpus").string(),
                 "--job.dump_folder=" + (scratch_ / name).string()} +
           more;
  }
  Words train(const std::string& name, const Words& more = {}) const {
    return Words{"train"} + flags(name, more);
  }
  Words launch(int ranks, const std::string& name, const Words& flags = {}) const {
    return Words{"launch", "--nproc-per-node", std::to_string(ranks), "--"} + train(name, flags);
  }
  // Like `launch`, on ranks that stay alive between runs; for tests of the run, not of
  // its processes.
  ProgramResult play(int ranks, const std::string& name, const Words& more = {}) const {
    ProgramResult run = rondo::play(ranks, flags(name, more));
    INFO(name << ":\n" << run.output);
    REQUIRE(run.exit_code == 0);
    return run;
  }
  ProgramResult compare(const std::string& a, const std::string& b, const Words& flags = {}) const {
    return rondo(Words{"compare", (scratch_ / a).string(), (scratch_ / b).string()} + flags);
  }
  nlohmann::json exit_record(const std::string& name) const {
    return nlohmann::json::parse(text_of(scratch_ / name / "exit.json"), nullptr, false);
  }
  std::vector<nlohmann::json> metrics(const std::string& name) const {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : lines_of(scratch_ / name / "metrics.jsonl"))
      lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

 private:
  static constexpr const char* kTinyLlama = R"(
[model]
name = "llama3"
flavor = "debugmodel"
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 2
multiple_of = 32
vocab_size = 259
)";
  static constexpr const char* kTinyRun = R"(
[optimizer]
lr = 2e-3

[lr_scheduler]
warmup_steps = 2

[training]
local_batch_size = 2
seq_len = 32
steps = 20
mixed_precision_param = "float32"

[validation]
enable = true
holdout_fraction = 0.2
local_batch_size = 1
seq_len = 16
freq = 10
steps = 1

[debug]
hash_every = 1
)";

  // Writes documents from a few bytes to many sequences, so that borders are anywhere in
  // a sequence.
  void write_corpus() const {
    const std::vector<std::string> words = {"graph", "step",  "rank",   "gather", "loss", "a",
                                            "the",   "shard", "weight", "replay", "of",   "bit"};
    std::uint32_t state = 1;
    const auto random = [&](std::uint32_t below) {
      state = state * 1664525u + 1013904223u;
      return (state >> 8) % below;
    };
    for (int document = 0; document < 60; ++document) {
      std::string text;
      const std::size_t length = 4 + random(document % 3 == 0 ? 40 : 900);
      while (text.size() < length) text += words[random(static_cast<std::uint32_t>(words.size()))] + " ";
      write_text(scratch_ / "corpus" / fmt::format("{:02}.txt", document), text);
    }
  }

  Scratch scratch_;
};

}  // namespace rondo

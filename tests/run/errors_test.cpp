// Tests the error catalogue of a run. Every row is a mistake or a failure, its exit code, and the
// required words of its message. tests/config/config_errors_test.cpp has mistakes in single keys.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Row {
  Words words;  // after `rondo`
  int exit_code;
  Words says;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const ProgramResult run = rondo(row.words);
    INFO(fmt::format("{}", fmt::join(row.words, " ")) << "\n" << run.output);
    CHECK(run.exit_code == row.exit_code);
    for (const std::string& text : row.says) CHECK_THAT(run.output, ContainsSubstring(text));
  }
}

TEST_CASE("mistakes on the command line end with 2 and name the nearest word") {
  check({
      {{"trian"}, 2, {"unknown subcommand \"trian\" (did you mean train?)"}},
      {{"launch", "--nproc-per-nod", "2", "--", "train"}, 2, {"did you mean --nproc-per-node?"}},
      {{"launch", "--nproc-per-node", "many", "--", "train"}, 2, {"--nproc-per-node", "many"}},
      {{"launch", "--nproc-per-node", "2"}, 2, {"rondo launch"}},
      {{"compare", "one"}, 2, {"compare: RUN_B is missing"}},
      {{"compare", "a", "b", "--tolerance", "-1"}, 2, {"--tolerance \"-1\" must be a number from 0 on"}},
  });
}

TEST_CASE("mistakes in the configuration end with 3 and name the key, alone and launched") {
  const Place place;
  const std::string file = (place / "typo.toml").string();
  write_text(file, "[training]\nstepz = 3\n\n[optimizer]\nlr = \"fast\"\n");
  const auto row = [&](const Words& flags, const Words& says) {
    return Row{place.train("run", flags), 3, says};
  };
  const auto launched = [&](const Words& flags, const Words& says) {
    return Row{place.launch(2, "run", flags), 3, says};
  };
  check({
      row({"--trainin.steps=3"}, {"--trainin.steps=3: unknown key (did you mean training.steps?)"}),
      row({"--training.steps=abc", "--optimizer.lr=-1"},
          {"--training.steps=abc: must be an integer", "--optimizer.lr=-1"}),
      row({"--model.vocab_size=257"}, {"model.vocab_size = 257 must be at least 258"}),
      row({"--training.seq_len=200000"}, {"must be at most model.max_seq_len = 131072"}),
      row({"--model.n_heads=5"}, {"--model.n_heads=5"}),
      row({"--parallelism.tensor_parallel_degree=4"}, {"must divide model.n_kv_heads = 2"}),
      row({"--parallelism.pipeline_parallel_degree=4", "--parallelism.pipeline_parallel_microbatch_size=3",
           "--parallelism.pipeline_parallel_layers_per_stage=5"},
          {"must divide training.local_batch_size", "= 1, the number of stages, must be a multiple of"}),
      row({"--parallelism.context_parallel_degree=2", "--training.seq_len=30"},
          {"to be a multiple of 4, but it is 30; the next multiple is 32"}),
      row({"--parallelism.context_parallel_degree=3", "--training.seq_len=48",
           "--parallelism.context_parallel_rotate_method=alltoall"},
          {"must divide the"}),
      row({"--activation_checkpoint.mode=memory_budget", "--compile.enable=false"},
          {"needs a recorded graph"}),
      {{"train", "--job.config_file=" + file},
       3,
       {file + ":2:1", "training.stepz", file + ":5:", "optimizer.lr"}},
      {{"train", "--job.config_file=/nowhere.toml"}, 3, {"cannot read \"/nowhere.toml\""}},
      row({"--compile.passes=cannonicalize"},
          {"compile.passes: unknown pass \"cannonicalize\" (did you mean canonicalize?)"}),
      row({"--compile.disable_passes=nonsense"},
          {"compile.disable_passes: unknown pass \"nonsense\"; known are"}),
      row({"--compile.passes=cudagraph"},
          {"compile.passes: cudagraph needs device cuda, and the run's is cpu"}),
      row({"--parallelism.data_parallel_shard_degree=3"},
          {"but the run has 1", "data_parallel_shard_degree = -1"}),
      launched({"--trainin.steps=3"}, {"unknown key (did you mean training.steps?)"}),
      launched({"--training.global_batch_size=6"},
               {"training.global_batch_size = 6 must be a multiple of", "2 * 2 = 4; the nearest is 8"}),
      launched({"--compile.passes=cudagraph"}, {"cudagraph needs device cuda"}),
      row({"--job.device=gpu"}, {"--job.device=gpu: allowed: auto, cpu, cuda"}),
  });
}

TEST_CASE("a launched configuration that cannot run is refused once, and no rank starts") {
  const Place place;
  for (const char* flag : {"--trainin.steps=3", "--parallelism.data_parallel_shard_degree=3"}) {
    const ProgramResult run = rondo(place.launch(2, "run", {flag}));
    INFO(run.output);
    CHECK(run.exit_code == 3);
    CHECK(std::count(run.output.begin(), run.output.end(), '\n') == 1);
    CHECK(run.output.starts_with("rondo: error: "));
  }
}

TEST_CASE("data that cannot be used ends with 4 and is named") {
  const Place place;
  write_text(place / "short/a.txt", "hi");
  write_text(place / "not_text.jsonl", "{\"text\": 3}\n");
  write_text(place / "torn.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\n");
  write_text(place / "binary/a.txt", std::string(100, '\0'));
  std::filesystem::create_directories(place / "empty");
  const auto row = [&](const std::string& name, const std::string& says) {
    const std::string path = (place / name).string();
    return Row{place.train("run", {"--validation.enable=false", "--training.dataset_path=" + path}),
               4,
               {path, says}};
  };
  check({
      row("nowhere", "no such file or folder"),
      row("empty", "no file in it"),
      row("*.nothing", "nothing matches this pattern"),
      row("short", "the training split has 4 tokens in 1 of 1 documents, and one sample needs 33"),
      row("not_text.jsonl", "not_text.jsonl:1:10: the field \"text\" is not a string"),
      row("torn.jsonl", "torn.jsonl:2:12: the string does not end"),
      row("binary", "1 of 1 files are binary and have 100 of 100 bytes"),
      {place.train("run", {"--validation.dataset_path=" + (place / "nowhere").string()}),
       4,
       {"nowhere", "no such file or folder"}},
      {place.train("run", {"--validation.holdout_fraction=0.0001"}),
       4,
       {"the validation split has 0 tokens"}},
      {place.launch(2, "run", {"--training.dataset_path=" + (place / "nowhere").string()}),
       4,
       {"exit code 4 (data or tokenizer)"}},
  });
  CHECK_FALSE(std::filesystem::exists(place / "run"));
  CHECK(rondo({"compare", (place / "nowhere").string(), (place / "empty").string()}).exit_code == 4);
  const ProgramResult top = rondo({"top", (place / "empty").string()});
  CHECK(top.exit_code == 4);
  CHECK_THAT(top.output, ContainsSubstring("has no run; give the folder of a run"));
}

TEST_CASE("a run folder that cannot be created ends with 6 and is named") {
  const Place place;
  write_text(place / "file", "");
  const auto row = [&](const std::string& folder, const std::string& says) {
    return Row{place.train("run", {"--job.dump_folder=" + folder}),
               6,
               {"job.dump_folder = \"" + folder + "\" " + says}};
  };
  check({
      row((place / "file").string(), "is a file, not a folder; choose another folder"),
      row((place / "file/below").string(), "cannot be created (Not a directory); choose another folder"),
      row("/proc/run", "cannot be created (No such file or directory); choose another folder"),
  });
  // A problem has one line.
  const ProgramResult run = rondo(place.train("file"));
  CHECK(std::count(run.output.begin(), run.output.end(), '\n') == 1);
}

TEST_CASE("a step that is not finite ends with 8, names step and quantity, and leaves the state unchanged") {
  const Place place;
  const std::vector<Words> settings = {{"--compile.enable=false"},
                                       {"--compile.executor=interpreter"},
                                       {"--compile.executor=replay"},
                                       {"--training.global_batch_size=8"}};
  for (const Words& setting : settings) {
    for (const auto& [lr, quantity] : {std::pair{"1e18", "loss"}, std::pair{"1e30", "grad_norm"}}) {
      const ProgramResult run =
          rondo(place.launch(2, "run", setting + Words{fmt::format("--optimizer.lr={}", lr)}));
      INFO(setting[0] << " lr " << lr << "\n" << run.output);
      CHECK(run.exit_code == 8);
      CHECK_THAT(run.output, ContainsSubstring(fmt::format("step 2: {} is not finite", quantity)));
      CHECK_THAT(run.output, !ContainsSubstring("cannot write"));
      CHECK(place.exit_record("run")["exit_code"] == 8);
      const std::vector<nlohmann::json> lines = place.metrics("run");
      REQUIRE(lines.size() == 2);
      CHECK(lines[1][quantity].is_string());
      CHECK(lines[0]["state_hash"] == lines[1]["state_hash"]);
    }
  }
}

}  // namespace
}  // namespace rondo

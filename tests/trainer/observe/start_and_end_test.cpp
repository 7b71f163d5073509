#include "trainer/observe/start_and_end.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Lines = std::vector<std::string>;

DataSummary data_of(std::int64_t documents, std::int64_t tokens) {
  DataSummary data;
  data.documents = documents;
  data.tokens = tokens;
  data.sources.emplace_back().steps_per_epoch = 100;
  return data;
}

// `validation`: by step.
RunLog log_of(const std::vector<double>& losses, const std::map<std::int64_t, double>& validation = {}) {
  RunLog log;
  for (const double loss : losses) {
    StepMetrics line;
    line.step = log.steps.lines() + 1;
    line.loss = loss;
    if (const auto at = validation.find(line.step); at != validation.end()) line.validation_loss = at->second;
    log.steps.add(line);
  }
  return log;
}

TEST_CASE("the peak that mfu refers to is said at the start, and an unknown GPU names the key that sets it") {
  JobConfig config;
  CHECK(peak_line(config, std::nullopt, "").empty());
  CHECK(peak_line(config, 989e12, "NVIDIA H100 80GB HBM3") ==
        "peak: 989 TFLOP/s a rank for mfu, the maker's figure for dense bf16");
  CHECK(peak_line(config, std::nullopt, "NVIDIA H800") ==
        "peak: \"NVIDIA H800\" is not in the table of GPUs, so mfu is not reported; set "
        "metrics.peak_tflops");
  config.metrics.peak_tflops = 125;
  CHECK(peak_line(config, 125e12, "") == "peak: 125 TFLOP/s a rank for mfu, by metrics.peak_tflops");
}

}  // namespace

TEST_CASE("data is reported in documents, tokens and epochs") {
  JobConfig config;
  config.training.steps = 250;
  config.training.dataset_path = "books";
  CHECK(data_lines(config, data_of(1200, 4'400'000), nullptr, {1'000'000, 4'000}) ==
        Lines{"data: 1.2 k documents with 4.4 M tokens in books; this run takes 1.0 M tokens, 2.5 epochs"});
}

TEST_CASE(
    "held-out documents are reported in tokens, and a fraction far from the requested one is explained") {
  JobConfig config;
  const DataSummary most = data_of(18, 640'000), few = data_of(1, 360'000), fair = data_of(1, 40'000);
  CHECK(data_lines(config, most, &few, {})[1] ==
        "held out for validation: 1 of 19 documents, 360.0 k tokens, 36.0 % of all, but "
        "validation.holdout_fraction is 5 %: documents are held out whole, and these are few and uneven. Set "
        "validation.dataset_path to use other documents");
  CHECK(data_lines(config, most, &fair, {})[1] ==
        "held out for validation: 1 of 19 documents, 40.0 k tokens, 5.9 % of all");
  config.validation.dataset_path = "elsewhere";
  CHECK(data_lines(config, most, &few, {})[1] ==
        "validation data: 1 document with 360.0 k tokens in elsewhere");
}

TEST_CASE("the start says what is between documents, of validation where it differs") {
  JobConfig config;
  config.validation.dataset_path = "elsewhere";
  DataSummary training = data_of(18, 640'000), validation = data_of(1, 360'000);
  training.ends = validation.ends = {"<bos> text <eos>"};
  CHECK(data_lines(config, training, &validation, {1, 1})[1] ==
        "tokenizer: bytes; documents: <bos> text <eos>");
  training.ends.insert("text <eos>");
  training.spelled = 12;
  const Lines lines = data_lines(config, training, &validation, {1, 1});
  REQUIRE(lines.size() == 4);
  CHECK(
      lines[1] ==
      "tokenizer: bytes; documents: <bos> text <eos> and text <eos>; text that spells a control token stays "
      "text (12 such)");
  CHECK(lines[2] == "documents of validation: <bos> text <eos>");
  config.training.special_tokens = SpecialTokens::token;
  CHECK(data_lines(config, training, nullptr, {1, 1})[1].ends_with("becomes it (12 such)"));
}

TEST_CASE("the loss 0 of a step without labels is never the best") {
  JobConfig config;
  config.training.steps = 3;
  CHECK(end_lines(config, {.step = 3}, log_of({5, 0, 4})).at(1) ==
        "loss: 4.0000 at the end, 4.0000 at best (step 3)");
  CHECK(end_lines(config, {.step = 2}, log_of({0, 0})).at(1) == "loss: 0.0000 at the end");
}

TEST_CASE("the end reports the last and the best losses, and a loss that is not finite is never the best") {
  JobConfig config;
  config.training.steps = 4;
  const RunLog log = log_of({5, NAN, 2, 3}, {{2, 4.5}, {4, 4.75}});
  const Lines lines = end_lines(
      config, {.step = 4, .tokens_seen = 4096, .finished = true, .seconds = 90, .paused_s = 5}, log);
  CHECK(lines ==
        Lines{"done after step 4 of 4, 4.1 k tokens; it took 1m30s, of these 5s for validation and saving",
              "loss: 3.0000 at the end, 2.0000 at best (step 3)",
              "validation loss: 4.7500 at the end, 4.5000 at best (step 2)", "run folder: ./outputs",
              "next: rondo report ./outputs draws the curves"});
}

TEST_CASE("the suggested next commands depend on what was saved") {
  JobConfig config;
  config.training.steps = 4;
  config.job.dump_folder = "run";
  config.optimizer.lr = 1e-3;
  config.lr_scheduler.warmup_steps = 0;
  RunEnd end{.step = 4, .schedule_step = 4, .finished = true, .last_saved_step = 4};
  const auto text = [&] {
    std::string all;
    for (const std::string& line : end_lines(config, end, log_of({1}))) all += line + "\n";
    return all;
  };
  CHECK_THAT(text(), ContainsSubstring("checkpoints: run/checkpoint, the last of step 4\n") &&
                         ContainsSubstring("rondo convert run DIR") &&
                         ContainsSubstring(
                             "the same command with --training.steps=8 trains on; its learning rate goes "
                             "from 0.00025 at step 4 to 0.0005 at step 5\n"));
  config.lr_scheduler.total_steps = 4;
  CHECK_THAT(text(), ContainsSubstring("its learning rate goes from 0.00025 at step 4 to 0 at step 5\n"));
  end.finished = false;
  CHECK_THAT(text(), ContainsSubstring("stopped after step 4 of 4") && !ContainsSubstring("trains on"));
}

TEST_CASE("a start says the learning rate before, at its first step and at the end") {
  JobConfig config;
  config.training.steps = 20;
  config.optimizer.lr = 1e-3;
  config.lr_scheduler.warmup_steps = 2;
  CHECK(learning_rate_line(config, {}) ==
        "learning rate: 0.0005 at step 1, 0.001 at step 2, 5.556e-05 at step 20");
  CHECK(learning_rate_line(config, {10, 10, RatesOfSaved{1e-4F, 0}}) ==
        "learning rate: 0.0001 at step 10, 0.0005556 at step 11, 5.556e-05 at step 20");
  config.training.steps = 1;
  CHECK(learning_rate_line(config, {}) == "learning rate: 0.001 at step 1");
}

TEST_CASE("a start warns where the learning rate is not the checkpoint's, or is 0 before the end") {
  JobConfig config;
  config.training.steps = 20;
  config.optimizer.lr = 1e-3;
  config.lr_scheduler.warmup_steps = 2;
  const float next = learning_rate(config, 10);
  CHECK(learning_rate_warnings(config, {}).empty());
  CHECK(learning_rate_warnings(config, {10, 10, RatesOfSaved{1e-3F, next}}).empty());
  CHECK(learning_rate_warnings(config, {10, 10, RatesOfSaved{1e-4F, 0}}) ==
        Lines{"the learning rate of step 11: 0 by the settings and the schedule of the checkpoint, 0.0005556 "
              "now"});
  config.lr_scheduler.total_steps = 8;
  CHECK_THAT(learning_rate_warnings(config, {}).at(0),
             ContainsSubstring("the learning rate is 0 from step 9 to the last one, 20; raise "));
  config.optimizer.lr = 0;
  CHECK(learning_rate_warnings(config, {}) ==
        Lines{"the learning rate is 0 from step 1 to the last one, 20: optimizer.lr = 0"});
  config.optimizer.lr = 5e-324;
  REQUIRE(learning_rate_warnings(config, {}).size() == 1);
  CHECK(learning_rate_warnings(config, {})[0].ends_with("optimizer.lr = 5e-324 is 0 in float32"));
}

}  // namespace rondo

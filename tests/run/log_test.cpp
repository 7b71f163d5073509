// Tests the console lines of a run, and the same lines in the run folder.
#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <regex>
#include <sstream>

#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

Words lines_of_output(const std::string& output) {
  Words lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a run reports its setup in ten lines, its last step, and its end") {
  const Place place;
  const ProgramResult run = must_end_well(
      place.launch(2, "run", {"--training.steps=3", "--metrics.log_freq=100", "--validation.freq=3"}));
  INFO(run.output);
  const Words lines = lines_of_output(run.output);
  const auto first_step = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("step 1  loss ") != std::string::npos;
  });
  REQUIRE(first_step != lines.end());
  CHECK(first_step - lines.begin() <= 10);
  for (const char* part :
       {"model: llama3 debugmodel, ", " parameters", "layout: 2 ranks (dp_shard 2)",
        "run folder: ", "tokenizer: bytes; documents: <bos> text <eos>\n",
        "held out for validation: ", "compiled: train_step ", " planned for a rank", "step 3  loss ",
        "done after step 3 of 3, 384 tokens", "validation loss ", "next: rondo report "})
    CHECK_THAT(run.output, ContainsSubstring(part));
  CHECK_THAT(run.output, !ContainsSubstring("traced") && !ContainsSubstring("replay:"));

  const auto metrics = place.metrics("run");
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0].contains("validation_loss"));
  CHECK_FALSE(metrics[1].contains("validation_loss"));
  CHECK(metrics[2].contains("validation_loss"));
  CHECK(metrics[1]["progress"].get<double>() == 256.0 / 384.0);
  CHECK(metrics[2]["progress"] == 1.0);
  CHECK(metrics[2]["data_wait_s"].get<double>() >= 0);
  const auto environment = nlohmann::json::parse(text_of(place / "run/env.json"));
  CHECK(std::regex_match(environment["versions"]["commit"].get<std::string>(),
                         std::regex("([0-9a-f]{12,}(-modified)?)?")));

  const std::string folder = (place / "run").string(), page = (place / "page.html").string();
  CHECK_THAT(must_end_well({"top", folder}).output,
             ContainsSubstring("finished, llama3 debugmodel, ranks: 2 (dp_shard 2)\nstep 3 of 3, 100.0 %") &&
                 ContainsSubstring("finished at step 3\n"));
  CHECK_THAT(must_end_well({"report", folder, "--text"}).output,
             ContainsSubstring("\nTraining loss (nats)\n"));
  CHECK(must_end_well({"report", folder, "--output", page}).output == page + "\n");
  CHECK_THAT(text_of(page), ContainsSubstring("\"name\":\"run\""));
}

TEST_CASE("a quiet run prints only steps and validations") {
  const Place place;
  const ProgramResult run =
      must_end_well(place.train("run", {"--training.steps=2", "--metrics.verbosity=quiet"}));
  for (const std::string& line : lines_of_output(run.output)) CHECK_THAT(line, ContainsSubstring(" step "));
}

TEST_CASE("lines of steps fit 100 columns and name the rank once; console.log has them, a resume appends") {
  const Place place;
  const Words flags = {"--checkpoint.enable=true", "--checkpoint.interval=2", "--metrics.log_freq=1"};
  const ProgramResult first = must_end_well(place.launch(2, "run", flags + steps(2)));
  const ProgramResult second = must_end_well(place.launch(2, "run", flags + steps(4)));
  int shown = 0;
  std::string printed;
  for (const std::string& line : lines_of_output(first.output + second.output)) {
    INFO(line);
    CHECK_THAT(line, !ContainsSubstring("default0") && !ContainsSubstring("[1] "));
    if (line.find(" step ") < 20) CHECK(line.size() <= 100);
    if (line.find(" step ") < 20) ++shown;
    if (line.starts_with("[0] ")) printed += line + "\n";
  }
  CHECK(shown >= 4);
  CHECK(text_of(place / "run/console.log") == printed);
}

}  // namespace
}  // namespace rondo

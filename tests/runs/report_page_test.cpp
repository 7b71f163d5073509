// Tests the page: its data, that no text of a run can break it, and that an installed browser
// draws it.
#include "runs/report_page.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <regex>

#include "apps/rondo/run_program.h"
#include "runs/event_text.h"
#include "runs/report_text.h"
#include "support/text/html.h"
#include "tests/runs/made_up_runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

// Writes two runs, one of them eager, with all files of a run folder.
struct TwoFolders {
  Scratch scratch;

  TwoFolders() {
    std::vector<StepMetrics> lines = steps(1, 2000);
    lines[1234].grad_norm = 777;
    lines[99].loss = NAN;
    lines[999].validation_loss = 6.5;
    lines[1999].validation_loss = 6.25;
    write_run(scratch / "replayed/outputs", lines,
              "[training]\nsteps = 2000\n[compile]\nenable = true\nexecutor = \"replay\"\n");
    write_text(scratch / "replayed/outputs/exit.json",
               R"({"exit_code": 0, "ended_at": "2026-01-31T12:30:00Z", "reason": "finished"})");
    write_text(scratch / "replayed/outputs/env.json",
               R"({"hostname": "</script><b>", "versions": {"rondo": "0.1.0"}})");
    write_text(scratch / "replayed/outputs/events.jsonl",
               R"({"time":"2026-01-31T12:00:00.000Z","event":"start","ranks":2})"
               "\n"
               R"({"time":"2026-01-31T12:00:00.123Z","event":"checkpoint","step":100,"kind":"full"})"
               "\n"
               R"({"time":"2026-01-31T12:00:01.123Z","event":"validation","step":1000,"loss":6.5})"
               "\n"
               R"({"time":"2026-01-31T12:)");
    write_text(scratch / "replayed/outputs/expert_load.jsonl",
               R"({"step":10,"tokens_per_expert":{"layers.1.moe":[1,2,3,4]}})"
               "\n");
    write_text(scratch / "replayed/outputs/console.log", "01-31 12:00:00 step 1\n");
    write_run(scratch / "eager/outputs", steps(1, 5),
              "[training]\nsteps = 2000\n[compile]\nenable = false\n");
    write_text(
        scratch / "eager/outputs/exit.json",
        R"({"exit_code": 8, "ended_at": "2026-01-31T12:00:02.123Z", "reason": "step 6: loss is not finite"})");
  }
  std::vector<RunRecord> read() const {
    return {read_record(scratch / "replayed/outputs"), read_record(scratch / "eager/outputs/")};
  }
};

// Returns the first installed browser.
std::optional<std::string> browser() {
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  for (const char* name : {"chromium", "google-chrome", "chromium-browser", "chrome"})
    for (std::size_t at = 0; at <= path.size(); at = path.find(':', at) + 1) {
      const fs::path found = fs::path(path.substr(at, path.find(':', at) - at)) / name;
      if (fs::exists(found)) return found.string();
      if (path.find(':', at) == std::string::npos) break;
    }
  return std::nullopt;
}

}  // namespace

TEST_CASE("the page has a curve of at most 600 points for every quantity of a run") {
  const TwoFolders folders;
  const json data = data_of(report_page(folders.read()));
  const json& run = data["runs"][0];
  for (const char* name :
       {"loss", "grad_norm", "lr", "tokens_per_s", "step_time_s", "memory_gib", "data_wait_s"}) {
    CAPTURE(name);
    CHECK(run["curves"][name]["mean"].size() == 600);
    CHECK(run["curves"][name]["low"].size() == 600);
  }
  CHECK(run["x"][0]["step"].size() == 600);
  CHECK(run["x"][0]["step"][599] == 2000);
  CHECK(run["x"][0]["tokens"][599] == 2'000'000);
  CHECK(run["x"][1]["step"] == json({1000, 2000}));
  CHECK(run["curves"]["validation_loss"]["mean"] == json({6.5, 6.25}));
  CHECK(run["time"]["parts"][0] == json({"training", 1002.5}));
  CHECK(run["time"]["parts"][1] == json({"other", 797.5}));
  CHECK(data["runs"][1]["time"] == nullptr);
  CHECK_FALSE(run["curves"].contains("mfu"));
  // The five steps of the other run are not grouped.
  CHECK(data["runs"][1]["curves"]["loss"]["mean"].size() == 5);
  CHECK_FALSE(data["runs"][1]["curves"]["loss"].contains("low"));
}

TEST_CASE("an outlier and a loss that is not finite survive on the page") {
  const TwoFolders folders;
  const json curves = data_of(report_page(folders.read()))["runs"][0]["curves"];
  double highest = 0;
  for (const json& value : curves["grad_norm"]["high"]) highest = std::max(highest, value.get<double>());
  CHECK(highest == 777);
  for (const json& value : curves["loss"]["mean"])
    CHECK(value.is_number());  // a group keeps the mean of its finite values
}

TEST_CASE("the page has the ends of runs, their differences and their events") {
  const TwoFolders folders;
  const json data = data_of(report_page(folders.read()));
  CHECK(data["runs"][0]["name"] == "replayed/outputs");
  CHECK(data["runs"][1]["name"] == "eager/outputs");
  CHECK(data["runs"][0]["executor"] == "replay");
  CHECK(data["runs"][1]["executor"] == "eager");
  CHECK(data["runs"][0]["ok"] == true);
  CHECK(data["runs"][1]["state"] == "ended with 8: step 6: loss is not finite");
  CHECK(data["runs"][0]["events"] ==
        json::array({json::array({"2026-01-31T12:00:00.000Z", "started; ranks: 2"}),
                     json::array({"2026-01-31T12:00:00.123Z", "saved step 100 (full)"}),
                     json::array({"2026-01-31T12:00:01.123Z", "validation loss 6.5 at step 1000"})}));
  const json end = json::array({"2026-01-31T12:00:02.123Z", "ended with 8: step 6: loss is not finite"});
  CHECK(data["runs"][1]["events"] == json::array({end}));
  CHECK(data["runs"][0]["environment"]["console log"].get<std::string>().ends_with("outputs/console.log"));
  CHECK_FALSE(data["runs"][1]["environment"].contains("console log"));
  CHECK(data["runs"][0]["environment"]["versions.rondo"] == "0.1.0");
  CHECK(data["runs"][0]["experts"]["rows"] == json::array({{"layers.1.moe", {1, 2, 3, 4}}}));
  CHECK(data["runs"][1]["experts"].is_null());
  CHECK(data["config"] == json({{"compile.enable", "true", "false"},
                                {"compile.executor", "'replay'", "(absent)"},
                                {"training.steps", "2000", "2000"}}));
  CHECK(data["best_first"].size() == 2);
}

TEST_CASE("events are sentences with their step; without the fields of one, they are their fields") {
  const auto sentence = [](const char* event) {
    return event_sentence(nlohmann::ordered_json::parse(event));
  };
  CHECK(sentence(R"({"event":"start","ranks":2,"run_before":"was killed"})") ==
        "started; ranks: 2; the previous run was killed");
  CHECK(sentence(R"({"event":"model","name":"llama3","flavor":"","parameters":6200000,"layout":""})") ==
        "model llama3, 6.2 M parameters");
  CHECK(sentence(R"({"event":"resumed","step":40,"from":"run/checkpoint/step-40","seconds":1.25})") ==
        "resumed after step 40 from run/checkpoint/step-40, read in 1.25 s");
  CHECK(sentence(
            R"({"event":"checkpoint","step":40,"kind":"full","bytes":1048576,"seconds":2,"waited_s":1})") ==
        "saved step 40 (full): 1.0 MiB in 2 s; training waited 1 s");
  CHECK(sentence(R"({"event":"checkpoint_failed","step":40,"reason":"no space"})") ==
        "step 40 was not saved: no space");
  CHECK(sentence(R"({"event":"warning","text":"the disk is slow"})") == "warning: the disk is slow");
  CHECK(sentence(R"({"event":"held_up","culprit":{"rank":3,"text":"rank 3 waits"}})") == "rank 3 waits");
  CHECK(sentence(R"({"event":"held_up","culprit":[3]})") == "held_up: ");
  CHECK(sentence(R"({"event":"checkpoint","kind":"full","free_bytes":2048})") ==
        "checkpoint: kind full, free bytes 2.0 KiB");
  CHECK(sentence(R"({"event":"other","step":{"a":1},"x":null,"rows":20000})") == "other: rows 20.0 k");
}

TEST_CASE("no text of a run can end the page's script, and the page requests nothing from the network") {
  const TwoFolders folders;
  const std::string page = report_page(folders.read());
  CHECK(data_of(page)["runs"][0]["environment"]["hostname"] == "</script><b>");
  std::size_t scripts = 0;
  for (std::size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++scripts;
  CHECK(scripts == 2);
  CHECK_FALSE(std::regex_search(page, std::regex("(src|href)=|@import|url\\(|https?://|fetch\\(|XMLHttp")));
  CHECK(page.find('@') == page.find("@media"));
  CHECK(escaped_html("a < b & \"c\"") == "a &lt; b &amp; &quot;c&quot;");
}

TEST_CASE("a run that is training is read up to its last complete line") {
  const Scratch scratch;
  write_text(scratch / "run/metrics.jsonl", jsonl(steps(1, 3)) + R"({"step":4,"lo)");
  write_text(scratch / "run/events.jsonl", "{\"time\":\"\",\"event\":\"resumed\",\"step\":2}\n");
  const json data = data_of(report_page({read_record(scratch / "run")}));
  CHECK(data["runs"][0]["summary"]["step"] == 3);
  CHECK(data["runs"][0]["state"] == "running");
  CHECK(data["runs"][0]["resumed"] == json({2}));
  CHECK(data["runs"][0]["ok"].is_null());
}

TEST_CASE("runs as text have plots of what changes, and the name of each run") {
  const TwoFolders folders;
  const std::string text = report_text(folders.read(), 60, false);
  CHECK_THAT(text,
             ContainsSubstring("replayed/outputs: finished\n  step 2000 of 2000, 2.0 M tokens; replay, "));
  CHECK_THAT(text, ContainsSubstring("eager/outputs: ended with 8: step 6: loss is not finite"));
  CHECK_THAT(text, ContainsSubstring("\nTraining loss (nats)\n") &&
                       ContainsSubstring("\nGradient norm, logarithmic\n"));
  CHECK_THAT(text, !ContainsSubstring("Learning rate"));  // the same in all steps
}

TEST_CASE("a browser runs the page's script to its end, and a loss of time has one colour in all runs") {
  const std::optional<std::string> program = browser();
  if (!program) SKIP("no chromium and no google-chrome is installed");
  const TwoFolders folders;
  write_text(folders.scratch / "eager/outputs/events.jsonl",  // more time is starting than other
             R"({"time":"2026-01-31T12:00:00.000Z","event":"start","seconds":0})"
             "\n"
             R"({"time":"2026-01-31T12:00:50.000Z","event":"training","step":1,"seconds":50})"
             "\n");
  write_text(folders.scratch / "eager/outputs/exit.json",
             R"({"exit_code": 8, "ended_at": "2026-01-31T12:01:00.000Z"})");
  write_text(folders.scratch / "page.html", report_page(folders.read()));
  const ProgramResult shown =
      run_program({*program, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                   "--user-data-dir=" + (folders.scratch / "profile").string(),
                   "file://" + (folders.scratch / "page.html").string()},
                  60'000);
  if (shown.output.find("<body") == std::string::npos) SKIP(*program + " does not start here");
  INFO(shown.output.substr(0, 2000));
  CHECK_THAT(shown.output, ContainsSubstring("<body data-drawn=\"8\">"));  // the number of charts
  const std::regex other(R"(background: (var\(--c\d+\));"></i>other )");
  std::vector<std::string> hues;
  for (std::sregex_iterator at(shown.output.begin(), shown.output.end(), other), end; at != end; ++at)
    hues.push_back((*at)[1]);
  REQUIRE(hues.size() == 2);
  CHECK(hues[0] == hues[1]);
}

}  // namespace rondo

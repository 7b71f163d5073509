// README and docs, asked of the program: what they show of a run, a plan or a graph is what it
// prints, their commands and keys exist, and so do the fields and events that they describe. A case
// makes the lines that a page should have and looks for them there; a failure shows the line to put
// in. Losses stand here to the digits that all x86-64 machines share, times not at all.
#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/docs/page.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> pages() {
  std::vector<std::string> found = {"README.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") found.push_back(fs::relative(entry.path(), kRoot));
  return found;
}

// Lines in blocks of code; one that goes on behind a backslash is one line.
std::vector<std::string> code_of(const std::string& page) {
  std::vector<std::string> lines;
  bool inside = false, goes_on = false;
  for (std::string line : lines_of(kRoot / page)) {
    if (line.starts_with("```")) {
      inside = !inside;
      continue;
    }
    if (!inside) continue;
    const bool ends_open = line.ends_with('\\');
    if (ends_open) line.pop_back();
    if (goes_on)
      lines.back() += line;
    else
      lines.push_back(line);
    goes_on = ends_open;
  }
  return lines;
}

// The part of an output line that begins with `from`; "" where no line has it.
std::string line_with(const std::string& output, const std::string& from) {
  const std::size_t at = output.find(from);
  return at == std::string::npos ? "" : output.substr(at, output.find('\n', at) - at);
}

std::string config(const std::string& name) { return (kRoot / "configs" / name).string(); }

// One step of the debug model on two ranks.
ProgramResult train(const fs::path& folder, const Words& flags) {
  return must_end_well(Words{"launch", "--nproc-per-node", "2", "--", "train", config("llama3_debug.toml"),
                             "--training.steps=1", "--compile.dump=all",
                             "--job.dump_folder=" + folder.string(),
                             "--training.dataset_path=" + (kRoot / "data/corpus").string()} +
                       flags);
}

// As run_train.sh begins; once for all cases.
struct Run {
  Scratch scratch;
  fs::path folder = scratch / "run";
  ProgramResult result = train(folder, {"--validation.steps=1", "--metrics.verbosity=detailed"});
};
const Run& run() {
  static const Run one;
  return one;
}

json plan(const Words& words) {
  return json::parse(must_end_well(Words{"plan"} + words + Words{"--search-plans=0", "--json"}).output);
}

std::string gib(const json& bytes) { return fmt::format("{:.1f}", bytes.get<double>() / (1 << 30)); }
std::string mib(const json& bytes) { return fmt::format("{:.1f}", bytes.get<double>() / (1 << 20)); }

TEST_CASE("README shows how a run of the debug model begins") {
  const std::string output = std::regex_replace(run().result.output, std::regex(kRoot.string() + "/"), "");
  for (const char* from : {"model: llama3", "layout: 2 ranks", "documents: ", "held out for validation:"})
    must_have("README.md", line_with(output, from));
  for (const auto& [from, to] : {std::pair("compiled: train_step", " in "), std::pair("data: ", "; this run"),
                                 std::pair("memory: ", " planned for a rank")}) {
    const std::string line = line_with(output, from);
    must_have("README.md", line.substr(0, line.find(to) + std::string(to).size()));
  }
  must_have("README.md", line_with(output, "step 1  loss").substr(0, 32));
}

TEST_CASE("docs/memory.md shows the memory of that step, and what a policy keeps of it") {
  const std::string log = std::regex_replace(run().result.output, std::regex("(^|\n)\\[0\\] .{14} "), "\n");
  const std::vector<std::string> summary = block_below("docs/memory.md", "## How to read the summary"),
                                 kept = block_below("docs/memory.md", "## Choose what the backward keeps");
  CHECK(summary.size() > 8);
  CHECK(kept.size() > 2);
  for (const std::string& line : summary) {
    INFO(line);
    CHECK(log.find("\n" + line + "\n") != std::string::npos);
  }
  const std::string trace = (run().folder / "graph/train_step.00-trace.ir").string();
  const std::string report = rondo({"opt", "--memory", "--memory-policy=default", trace}).output;
  for (const std::string& line : kept)
    CHECK(report.find(line.substr(0, line.find(", ..."))) != std::string::npos);
}

TEST_CASE("docs/graph.md and README show lines of the graph of a short step") {
  const Scratch scratch;
  const fs::path folder = scratch / "run";
  train(folder, {"--training.seq_len=64", "--training.local_batch_size=1", "--validation.enable=false"});
  std::string graph;  // without its comments, as the block is read
  for (const std::string& line : lines_of(folder / "graph/train_step.01-canonicalize.ir"))
    graph += line.substr(0, line.find("  #")) + "\n";
  CHECK(text_of(folder / "graph/train_step.01-canonicalize.ir").find("  # dp_shard 0\n") !=
        std::string::npos);
  for (const auto& [page, heading] :
       {std::pair("docs/graph.md", "## How to read it"), std::pair("README.md", "## A step is a graph")}) {
    int shown = 0;
    for (const std::string& line : block_below(page, heading)) {
      if (line == "...") continue;
      ++shown;
      INFO(page << ": " << line);
      CHECK(graph.find(line + "\n") != std::string::npos);
    }
    CHECK(shown > 8);
  }
}

TEST_CASE("README shows a layout that is refused, and a plan of 405B") {
  const ProgramResult refused = rondo({"config", "check", config("llama3_debug.toml"), "--world", "4",
                                       "--parallelism.tensor_parallel_degree=3"});
  CHECK(refused.exit_code == 3);
  const std::string planned = must_end_well({"plan", config("llama3_405b.toml"), "--world", "512", "--device",
                                             "h200", "--search-plans=0"})
                                  .output;
  const auto shows = [](const std::string& output, const std::vector<std::string>& block) {
    CHECK_FALSE(block.empty());
    for (const std::string& line : block) {
      INFO(line);
      CHECK((line == "..." || output.find(line) != std::string::npos));
    }
  };
  shows(refused.output, block_below("README.md", "## A wrong layout is refused with its reason"));
  for (const char* from : {"model          llama3", "layout         512", "  total ", "  bound by"})
    must_have("README.md", line_with(planned, from));
}

TEST_CASE("docs/graph.md says what the exact fusions save") {
  const auto row = [](const std::string& name, const std::string& file, const std::string& dtype) {
    const Words words = {config(file), "--world=1", "--device=cpu",
                         "--training.mixed_precision_param=" + dtype};
    const json plain =
                   plan(words + Words{"--compile.disable_passes=fuse_add_rms_norm,fuse_add_permute_tokens"}),
               less = plan(words);
    return fmt::format("| {} | {} -> {} | {} -> {} MiB |", name, plain["step"]["ops"].dump(),
                       less["step"]["ops"].dump(), mib(plain["memory"]["total_bytes"]),
                       mib(less["memory"]["total_bytes"]));
  };
  must_have("docs/graph.md", row("Llama 3, fp32, 4 x 256 tokens", "llama3_debug.toml", "float32"));
  must_have("docs/graph.md", row("Llama 3, bf16", "llama3_debug.toml", "bfloat16"));
  must_have("docs/graph.md", row("DeepSeek-V3, fp32, 2 x 128 tokens", "deepseek_v3_debug.toml", "float32"));
  must_have("docs/graph.md", row("DeepSeek-V3, bf16", "deepseek_v3_debug.toml", "bfloat16"));
}

TEST_CASE("docs/graph.md says what fewer products and sums are planned to save") {
  const auto cell = [](const Words& layout, const std::string& disabled) {
    const json p =
        plan(Words{config("llama3_8b.toml"), "--training.dtype=bfloat16", "--activation_checkpoint.mode=none",
                   "--compile.numerics=rounds", "--compile.disable_passes=" + disabled} +
             layout);
    return fmt::format("{} launches, {:.0f} tokens/s", p["step"]["launches"]["total"].dump(),
                       p["tokens_per_s_per_rank"].get<double>());
  };
  const auto row = [&](const std::string& name, const std::string& disabled) {
    return fmt::format("| {} | {} | {} |", name, cell({"--world=1", "--training.seq_len=4096"}, disabled),
                       cell({"--world=8", "--parallelism.tensor_parallel_degree=8"}, disabled));
  };
  must_have("docs/graph.md", row("none of them", "merge_linears,fuse_addmm"));
  must_have("docs/graph.md", row("`merge_linears`", "fuse_addmm"));
  must_have("docs/graph.md", row("and `fuse_addmm`", ""));
}

TEST_CASE("docs/plan.md shows what fewer pending microbatches take") {
  const std::string output =
      must_end_well({"plan", config("llama3_70b.toml"), "--world", "64", "--device", "h200", "--search-plans",
                     "0", "--parallelism.pipeline_parallel_degree=8",
                     "--parallelism.pipeline_parallel_schedule=ZBVZeroBubble", "--compile.memory_policy=full",
                     "--training.local_batch_size=16"})
          .output;
  for (const char* line : {"  pending ", "    at most 4", "    at most 2", "    at most 1"})
    must_have("docs/plan.md", line_with(output, line));
}

TEST_CASE("docs/plan.md shows plans side by side, and the picture that the command writes") {
  const std::filesystem::path picture =
      std::filesystem::temp_directory_path() / fmt::format("rondo-scaling-page-{}.svg", getpid());
  const std::string output =
      must_end_well({"plan", config("llama3_8b.toml"), "--world", "8,32,128,512", "--device", "h100,b200",
                     "--price", "2.5", "--write", picture.string()})
          .output;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && !line.starts_with("planning, ")) must_have("docs/plan.md", line);
  CHECK(text_of(picture) == text_of(kRoot / "docs/pictures/plan_scaling.svg"));
  std::filesystem::remove(picture);
}

TEST_CASE("docs/memory.md says what a loss in chunks saves") {
  const auto planned = [](const char* numerics) {
    return plan({config("llama3_8b.toml"), "--world=8", "--training.local_batch_size=1",
                 "--training.seq_len=16384", std::string("--compile.numerics=") + numerics});
  };
  const json exact = planned("exact")["memory"], chunks = planned("rounds")["memory"];
  must_have("docs/memory.md", fmt::format("| `exact` | {} GiB, {} of them of the head |",
                                          gib(exact["total_bytes"]), gib(exact["categories_bytes"]["head"])));
  must_have("docs/memory.md", fmt::format("| `rounds`, 4 chunks | {} GiB |", gib(chunks["total_bytes"])));
}

TEST_CASE("docs/parallelism.md says what gradients reduced once a step are planned to save and to take") {
  const auto row = [](const std::string& name, const Words& job) {
    const auto planned = [&](const char* sync) {
      return plan(job + Words{"--device=h100", std::string("--parallelism.fsdp_gradient_sync=") + sync});
    };
    const json often = planned("microbatch"), once = planned("step");
    const auto sent = [](const json& p) {
      return gib(p["step"]["collectives"]["reduce-scatter"]["groups"]["dp"]["sent_bytes"]);
    };
    const auto held = [](const json& p) { return gib(p["memory"]["total_bytes"]); };
    return fmt::format("| {} | {} -> {} GiB | {} -> {} GiB | {:.0f} -> {:.0f} |", name, sent(often),
                       sent(once), held(often), held(once), often["tokens_per_s_per_rank"].get<double>(),
                       once["tokens_per_s_per_rank"].get<double>());
  };
  must_have("docs/parallelism.md", row("8B on 64, 8 microbatches", {config("llama3_8b.toml"), "--world=64",
                                                                    "--training.global_batch_size=512"}));
  must_have("docs/parallelism.md",
            row("405B on 512, TP 8, PP 8 with Interleaved1F1B, 32 microbatches",
                {config("llama3_405b.toml"), "--world=512", "--parallelism.tensor_parallel_degree=8",
                 "--parallelism.pipeline_parallel_degree=8", "--training.local_batch_size=32",
                 "--parallelism.pipeline_parallel_schedule=Interleaved1F1B"}));
}

TEST_CASE("docs/experts.md says what the room for experts costs") {
  const auto row = [](const std::string& name, const std::string& file, int ranks) {
    const Words words = {config(file), fmt::format("--world={}", ranks)};
    const Words worst = words + Words{"--parallelism.expert_capacity_factor=0"};
    return fmt::format("| {}, {} ranks | {} GiB | {} GiB |", name, ranks,
                       gib(plan(words)["memory"]["total_bytes"]), gib(plan(worst)["memory"]["total_bytes"]));
  };
  must_have("docs/experts.md", row("16B", "deepseek_v3_16b.toml", 8));
  must_have("docs/experts.md", row("236B", "deepseek_v3_236b.toml", 128));
  must_have("docs/experts.md", row("671B", "deepseek_v3_671b.toml", 512));
}

TEST_CASE("docs/run_folder.md describes every field of metrics and every event of a run") {
  const std::string page = text_of(kRoot / "docs/run_folder.md");
  for (const char* file : {"metrics.jsonl", "events.jsonl"})
    for (const std::string& line : lines_of(run().folder / file)) {
      const json record = json::parse(line);
      if (record.contains("event"))
        CHECK(page.find("| `" + record["event"].get<std::string>() + "` |") != page.npos);
      for (const auto& [key, value] : record.items()) {
        INFO(file << ": " << key);
        CHECK(page.find(key) != std::string::npos);
      }
    }
}

// `words` behind `rondo`, as a page shows them: subcommand, flags and keys are known.
void check_command(const Words& words) {
  static std::map<std::string, std::string> helps;  // by command
  std::string command = words.empty() ? "" : words[0];
  if ((command == "checkpoint" || command == "data" || command == "config") && words.size() > 1)
    command += " " + words[1];
  std::string& help = helps[command];
  if (help.empty()) {
    Words asked = words_of(command);
    asked.push_back("--help");
    const ProgramResult result = rondo(asked);
    INFO(command << ":\n" << result.output);
    REQUIRE(result.exit_code == 0);
    help = result.output;
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--")
      return check_command({words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()});
    if (!words[i].starts_with("--")) continue;
    const std::string name = words[i].substr(0, words[i].find('='));
    INFO("rondo " << command << " ... " << name);
    std::string key = name.substr(2);
    if (key.find('.') == std::string::npos) {
      CHECK(std::regex_search(help, std::regex(name + "\\b")));
      continue;
    }
    if (const std::size_t no = key.find(".no-"); no != std::string::npos) key.erase(no + 1, 3);
    CHECK(rondo({"help", key}).exit_code == 0);
  }
}

TEST_CASE("the commands of the pages are commands of the program") {
  static const std::regex program("^(?:build/(?:cpu|cuda)/)?rondo$");
  int commands = 0;
  for (const std::string& page : pages())
    for (const std::string& line : code_of(page)) {
      Words words = words_of(line.substr(0, line.find("  #")));
      while (!words.empty() && (words[0].find('=') != std::string::npos || words[0] == "time"))
        words.erase(words.begin());
      if (words.empty() || !std::regex_match(words[0], program) || words.back().ends_with(':')) continue;
      words.erase(words.begin());
      if (words[0].ends_with(':') || (words.size() > 1 && words[1].ends_with(':'))) continue;  // a message
      INFO(page << ": " << line);
      ++commands;
      check_command(words);
    }
  CHECK(commands > 25);
}

TEST_CASE("the keys that pages name are keys of the configuration") {
  static const std::regex named("`([a-z_0-9]+\\.[a-z_0-9.]+)(?: = [^`]*|=[^`]*)?`");
  static const std::set<std::string> sections = [] {
    std::set<std::string> names;
    const json schema = json::parse(rondo({"config", "schema"}).output);
    for (const auto& [name, value] : schema["properties"].items()) names.insert(name);
    return names;
  }();
  std::set<std::string> keys;
  for (const std::string& page : pages()) {
    const std::string text = text_of(kRoot / page);
    for (auto match = std::sregex_iterator(text.begin(), text.end(), named); match != std::sregex_iterator();
         ++match) {
      const std::string key = (*match)[1];
      static const std::regex file("\\.(csv|jsonl|json|toml)$");
      if (std::regex_search(key, file)) continue;
      if (sections.contains(key.substr(0, key.find('.')))) keys.insert(key);
    }
  }
  CHECK(keys.size() > 60);
  for (const std::string& key : keys) {
    INFO(key);
    CHECK(rondo({"help", key}).exit_code == 0);
  }
}

}  // namespace
}  // namespace rondo

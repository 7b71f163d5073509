// `rondo plan` as a process: machines that the table lacks, prices, and several plans side by side.
#include <unistd.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "tests/apps/plan_process.h"
#include "tests/docs/page.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

const std::string kJob = "--search-plans 0 --model.n_layers=2 --world ";

// A file outside of the folder in which plans run.
struct DeviceFile {
  fs::path path = fs::temp_directory_path() / fmt::format("rondo-card-{}.toml", getpid());
  explicit DeviceFile(const std::string& text) { std::ofstream(path) << text; }
  ~DeviceFile() { fs::remove(path); }
  std::string flag() const { return " --device-file " + path.string(); }
};

// The job on 16 H100.
const json& h100_plan() {
  static const json plan = plan_json("llama3_8b.toml", kJob + "16 --device h100");
  return plan;
}

double step_s(const json& p) { return p.at("step").at("step_s"); }

TEST_CASE("the device file of docs/plan.md is the table's H100") {
  std::string text;
  for (const std::string& line : block_below("docs/plan.md", "## Machines")) text += line + "\n";
  REQUIRE_FALSE(text.empty());
  const DeviceFile file(text);
  const json own = plan_json("llama3_8b.toml", kJob + "16" + file.flag());
  const json& known = h100_plan();
  CHECK(own.at("step") == known.at("step"));
  CHECK(own.at("memory") == known.at("memory"));
  CHECK(own.at("run").at("energy_kwh") == known.at("run").at("energy_kwh"));
  CHECK(own.at("device") == "my-h100");
}

TEST_CASE("a device file with a base changes only what it names") {
  const DeviceFile file("base = \"h100\"\nname = \"small\"\nmemory_gib = 40\n");
  const json own = plan_json("llama3_8b.toml", kJob + "16" + file.flag());
  const json& known = h100_plan();
  CHECK(own.at("step") == known.at("step"));
  CHECK(own.at("memory").at("usable_bytes") == std::int64_t{37} << 30);
}

TEST_CASE("two GPUs of one name cannot be told apart, which ends with 2") {
  const DeviceFile file("base = \"h100\"\nmemory_gib = 40\n");
  const ProgramResult result = plan("llama3_8b.toml", kJob + "8 --device h100" + file.flag());
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.output,
             ContainsSubstring("has a GPU with the name of another, h100; set name in the file"));
}

TEST_CASE("a plan prints the figures of the machine that its flags changed") {
  const std::string text =
      plan("llama3_8b.toml",
           kJob + "8 --device h100 --gpus-per-node 4 --network 100 --power 500 --rates links=0.9")
          .output;
  CHECK_THAT(text, ContainsSubstring(
                       "(NVIDIA H100 SXM, 80 GB, 4 a node, 100 Gb/s each, 500 W each, rates links=0.9)"));
}

TEST_CASE("each mistake in a device file is a line with its place and rule, and ends with 3") {
  struct Mistake {
    const char *text, *message;
  };
  const Mistake mistake =
      GENERATE(Mistake{"base = \"h100\"\nmemory_gib = 3", ":2:1: memory_gib = 3: must be more than 3"},
               Mistake{"base = \"h100\"\npower_w = \"high\"", ":2:1: power_w = \"high\": must be a number"},
               Mistake{"base = \"h101\"",
                       ":1:1: base = \"h101\": must be a GPU of `rondo plan --device` (did you mean h100?)"},
               Mistake{"base = \"h100\"\nmemory_gb = 80",
                       ":2:1: memory_gb = 80: unknown key (did you mean memory_gib?)"},
               Mistake{"base = \"h100\"\ngpus_per_node = 0", "gpus_per_node = 0: must be at least 1"},
               Mistake{"name = \"x\"\nfp32_tflops = 9", ".toml: lacks bf16_tflops, memory_gib, "},
               Mistake{"name = ", "not valid TOML"});
  const DeviceFile file(mistake.text);
  const ProgramResult result = plan("llama3_8b.toml", kJob + "8" + file.flag());
  INFO(mistake.text << ": " << result.output);
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.output, ContainsSubstring(mistake.message));
}

TEST_CASE("GPUs a node and their network divide what crosses nodes, and a power limit slows products") {
  const std::string words = kJob + "16 --device h100";
  const json& own = h100_plan();
  const json slow = plan_json("llama3_8b.toml", words + " --network 100");
  const auto gather_s = [](const json& p) {
    return p.at("step").at("collectives").at("all-gather").at("seconds").get<double>();
  };
  CHECK(gather_s(slow) > 3 * gather_s(own));
  const json small = plan_json("llama3_8b.toml", words + " --gpus-per-node 4 --network 800");
  CHECK(gather_s(small) == Approx(gather_s(own)).epsilon(0.02));
  const json cool = plan_json("llama3_8b.toml", words + " --power 350");
  CHECK(cool.at("step").at("attention_s").get<double>() ==
        Approx(own.at("step").at("attention_s").get<double>() * std::pow(2, 0.4)));
  CHECK(cool.at("step").at("memory_s") == own.at("step").at("memory_s"));
  CHECK(cool.at("run").at("energy_kwh").get<double>() / cool.at("run").at("device_hours").get<double>() ==
        Approx(0.35));
}

TEST_CASE("a price and tokens give the price of the run, of 1e9 tokens, and of 20 tokens a parameter") {
  const std::string words = kJob + "8 --device h100 --price 2.5 --tokens 1.5T";
  const json p = plan_json("llama3_8b.toml", words);
  const json &run = p.at("run"), &optimal = p.at("optimal_run");
  CHECK(run.at("tokens").get<double>() == Approx(1.5e12).epsilon(1e-6));
  CHECK(run.at("price").get<double>() == Approx(2.5 * run.at("device_hours").get<double>()));
  CHECK(optimal.at("tokens").get<double>() == Approx(20 * p.at("parameters").get<double>()).epsilon(1e-4));
  CHECK(optimal.at("seconds").get<double>() ==
        Approx(optimal.at("tokens").get<double>() / p.at("tokens_per_s").get<double>()));
  CHECK(p.at("price_per_billion_tokens").get<double>() ==
        Approx(run.at("price").get<double>() / 1500).epsilon(1e-6));
  CHECK(plan_json("llama3_8b.toml", kJob + "8").at("run").at("price").is_null());
}

TEST_CASE("MFU counts whole squares of attention, causal MFU half of them, HFU what is computed") {
  const std::string words = kJob + "8 --device h100 --activation_checkpoint.mode=";
  const json p = plan_json("llama3_8b.toml", words + "none"),
             full = plan_json("llama3_8b.toml", words + "full");
  const double attention = 12.0 * 2 * 4096 * 8192 / p.at("flops_per_token").get<double>();
  CHECK(p.at("causal_mfu_percent").get<double>() ==
        Approx(p.at("mfu_percent").get<double>() * (1 - attention / 2)));
  // The backward of attention computes scores again, so HFU is a little more without recomputation,
  // too.
  CHECK(p.at("hfu_percent").get<double>() > p.at("causal_mfu_percent").get<double>());
  CHECK(full.at("hfu_percent").get<double>() / full.at("causal_mfu_percent").get<double>() >
        1.1 * p.at("hfu_percent").get<double>() / p.at("causal_mfu_percent").get<double>());
}

TEST_CASE("the text begins with the verdict, and notes and kernels need --verbose") {
  const std::string words = kJob + "8 --device h100 --price 2";
  const std::string text = plan("llama3_8b.toml", words).output;
  CHECK_THAT(text, StartsWith("fits "));
  for (const char* part :
       {" usable on rank 0\n", "the speed of 8 in 10 published runs was within 10 % for dense",
        "20 tokens a parameter", " kWh", "$"})
    CHECK_THAT(text, ContainsSubstring(part));
  for (const char* part : {"note: ", "kernels, copies and fills", "planned in "})
    CHECK_THAT(text, !ContainsSubstring(part));
  const std::string large = plan("llama3_8b.toml", words + " --training.local_batch_size=64").output;
  CHECK_THAT(large, StartsWith("does not fit "));
  CHECK_THAT(large, ContainsSubstring("as if it fitted"));
}

TEST_CASE("lists of ranks and devices give a row each, equal to the plans alone, and a picture") {
  const fs::path picture = fs::temp_directory_path() / fmt::format("rondo-scaling-{}.svg", getpid());
  const std::string words = kJob + "16,8,16 --device h100,b200,h100-80gb --network 400 --price 3";
  const json plans = plan_json("llama3_8b.toml", words + " --write " + picture.string()).at("plans");
  REQUIRE(plans.size() == 4);
  CHECK(plans[0].at("world_size") == 8);
  CHECK(plans[1].at("world_size") == 16);
  CHECK(plans[2].at("device") == "b200");
  CHECK(step_s(plans[1]) == step_s(h100_plan()));
  std::string svg;
  for (const std::string& line : lines_of(picture)) svg += line + "\n";
  CHECK(fs::remove(picture));
  for (const char* part : {"llama3 8B", "b200, ", "<title>16 ranks: ", "</svg>"})
    CHECK_THAT(svg, ContainsSubstring(part));
  const std::string text = plan("llama3_8b.toml", words).output;
  for (const char* part :
       {"efficiency", "100.0 %", "20 a parameter", "b200", "NVIDIA H100 SXM, 80 GB, 400 Gb/s each\n"})
    CHECK_THAT(text, ContainsSubstring(part));
}

TEST_CASE("a flag of a machine that cannot be is one line with its rule, and ends with 2") {
  struct Mistake {
    const char *words, *message;
  };
  const Mistake mistake = GENERATE(
      Mistake{"8 --device cpu --network 100", "--network \"100\" needs a GPU, and --device is cpu"},
      Mistake{"8 --network 0", "--network \"0\" must be a number of Gb/s from 0.1 to 100000"},
      Mistake{"8 --device gb10 --gpus-per-node 8", "--gpus-per-node \"8\" must be 1 for gb10"},
      Mistake{"8 --device h100 --power 800", "--power \"800\" must be from 175 to 700, the limit of h100"},
      Mistake{"8 --price free", "--price \"free\" must be a number of dollars"},
      Mistake{"8 --tokens 1.5", "--tokens \"1.5\" must be a whole number of tokens"},
      Mistake{"8,x", "--world \"8,x\" must be a whole number from 1 to 1000000"},
      Mistake{"8 --device h100,cpu", "--device \"h100,cpu\" must be GPUs, or cpu alone"},
      Mistake{"8 --device h100,b20", "--device \"h100,b20\" \"b20\" is not known (did you mean h20?)"},
      Mistake{"8,16 --search", "--search needs one --world and one --device"},
      Mistake{"8 --search", "--search-plans \"0\" must be above 0 with --search"},
      Mistake{"8 --device h100,b200 --write x.svg", "--write \"x.svg\" needs several numbers of ranks"},
      Mistake{"8,16 --write x.html", "--write \"x.html\" must end in .svg for several numbers of ranks"},
      Mistake{"8,16 --rank 8", "--rank \"8\" must be below --world \"8,16\""});
  const ProgramResult result = plan("llama3_8b.toml", kJob + mistake.words);
  INFO(mistake.words << ": " << result.output);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.output, ContainsSubstring(mistake.message));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
}

}  // namespace
}  // namespace rondo

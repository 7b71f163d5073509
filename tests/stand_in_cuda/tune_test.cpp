// Measured algorithms of products, from `rondo tune` to recorded steps that use them. On the
// stand-in a product takes no time, so LibTorch's products are made slow.
#include <fstream>

#include "tests/occurrences.h"
#include "tests/stand_in_cuda/on_stand_in.h"

namespace rondo {
namespace {

const Words kRounds = {"--training.mixed_precision_param=bfloat16", "--compile.numerics=rounds",
                       "--validation.enable=false"};

ProgramResult tune(const StandInRun& run, const std::string& table, const Words& flags,
                   const Words& settings = {"RONDO_STAND_IN_SLOW=cublasGemmEx:100"}) {
  return run_program(Words{"/usr/bin/env"} + stand_in_settings(run.journals()) + settings +
                         Words{kRondo, "tune", kLlama, "--out", table} + flags,
                     kRunTimeout_ms);
}

}  // namespace

TEST_CASE("products are measured once, and recorded steps use the faster algorithms") {
  const StandInRun run;
  const std::string table = (run.place / "matmuls.json").string();
  const ProgramResult tuned = tune(run, table, kRounds);
  INFO(tuned.output);
  REQUIRE(tuned.exit_code == 0);
  nlohmann::json measured = nlohmann::json::parse(std::ifstream(table));
  std::int64_t calls = 0;
  for (auto& row : measured["products"]) {
    INFO(row.dump());
    CHECK(row["us"] < row["libtorch_us"]);
    CHECK(row["algorithm"].get<std::string>().starts_with("130100:"));
    calls += row["calls"].get<std::int64_t>();
    row["algorithm"] = "130100:4096:42.1.0.0.0.0.0.0";  // the one that uses a workspace
  }
  CHECK(measured["products"].size() >= 5);
  std::ofstream(table) << measured;

  const ProgramResult ended =
      run.run(1, kLlama,
              kRounds + steps(4) +
                  Words{"--compile.passes=default,cudagraph", "--metrics.verbosity=detailed",
                        "--compile.matmul_algorithms=" + table});
  INFO(ended.output);
  REQUIRE(ended.exit_code == 0);
  CHECK(problems(run.journal()).empty());
  const std::string graph = text_of(run.place / "run/graph/train_step.ir");
  CHECK(occurrences(graph, "rondo.mm.default") + occurrences(graph, "rondo.addmm_.default") ==
        static_cast<std::size_t>(calls));
  CHECK(occurrences(graph, "aten.mm.default") + occurrences(graph, "aten.addmm_.default") == 0);
  CHECK(ended.output.find("chose measured algorithms") != ended.output.npos);
}

TEST_CASE("if LibTorch's product is as fast, it is kept") {
  const StandInRun run;
  const std::string table = (run.place / "matmuls.json").string();
  const ProgramResult tuned = tune(run, table, kRounds, {"RONDO_STAND_IN_SLOW=cublasLtMatmul:100"});
  INFO(tuned.output);
  REQUIRE(tuned.exit_code == 0);
  for (const auto& row : nlohmann::json::parse(std::ifstream(table))["products"])
    CHECK(row["algorithm"] == "");
}

TEST_CASE("a table of another GPU or another cuBLASLt ends a run before it trains") {
  struct Row {
    const char *device, *algorithm, *says;
  };
  for (const Row& row :
       {Row{"NVIDIA A100", "130100:0:42.0.0.0.0.0.0.0", "was measured on \"NVIDIA A100\""},
        Row{nullptr, "120000:0:42.0.0.0.0.0.0.0", "is for cuBLASLt 120000, but this library is 130100"},
        Row{nullptr, "130100:0:41.0.0.0.0.0.0.0", "is not supported by this GPU"}}) {
    const StandInRun run;
    const std::string table = (run.place / "matmuls.json").string();
    REQUIRE(tune(run, table, kRounds).exit_code == 0);
    nlohmann::json changed = nlohmann::json::parse(std::ifstream(table));
    if (row.device != nullptr) changed["device"] = row.device;
    for (auto& product : changed["products"]) product["algorithm"] = row.algorithm;
    std::ofstream(table) << changed;
    const ProgramResult ended =
        run.run(1, kLlama, kRounds + steps(4) + Words{"--compile.matmul_algorithms=" + table});
    INFO(ended.output);
    CHECK(ended.exit_code == 3);
    CHECK(ended.output.find(row.says) != ended.output.npos);
    CHECK(ended.output.find("step 1 ") == ended.output.npos);
  }
}

TEST_CASE("nothing is measured for steps that must keep every bit") {
  const StandInRun run;
  const ProgramResult exact = tune(run, "m.json", {});
  CHECK(exact.exit_code == 3);
  CHECK(exact.output.find("compile.numerics = \"rounds\"") != exact.output.npos);
}

}  // namespace rondo

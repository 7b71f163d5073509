// Tests every schedule of a pipeline with every model on every kind of layout against the bits of
// accumulation, and torchtitan's tests of pipelines with the debug models. Label `full`.
#include <catch2/generators/catch_generators.hpp>

#include "tests/run/pipeline.h"

namespace rondo {
namespace {

struct Kind {
  std::string name;
  int replicate = 1, shard = 1, tensor = 1, context = 1, experts = 1;

  int data() const { return replicate * shard; }
  int ranks() const { return data() * tensor * context; }
  Words flags() const {
    return Grid{replicate, shard}.flags() +
           Words{fmt::format("--parallelism.tensor_parallel_degree={}", tensor),
                 fmt::format("--parallelism.context_parallel_degree={}", context),
                 fmt::format("--parallelism.expert_parallel_degree={}", experts)};
  }
};
const std::vector<Kind> kKinds = {
    {"fsdp", 1, 2}, {"tp", 1, 1, 2}, {"cp", 1, 1, 1, 2}, {"hsdp", 2, 2}, {"ep", 1, 2, 1, 1, 2}};

// Combines each setting of a step with the schedules of each kind in turn.
Words way_to_run(std::size_t number) {
  const std::vector<Words> executors = {kReplay, kInterpreter, kEager};
  return executors[number % executors.size()] +
         Words{
             fmt::format("--parallelism.fsdp_reshard_after_forward={}", number % 2 == 0 ? "never" : "always"),
             fmt::format("--training.document_attention={}", number % 4 < 2),
             fmt::format("--parallelism.fsdp_gradient_sync={}", number % 3 == 0 ? "microbatch" : "step")};
}

void climb_schedules(const Place& place, bool has_experts) {
  for (const Kind& kind : kKinds) {
    if (kind.experts > 1 && !has_experts) continue;
    for (const bool bfloat16 : {false, true}) {
      const std::size_t number = static_cast<std::size_t>(kind.ranks()) + (bfloat16 ? 1 : 0);
      const std::string name = fmt::format("{} {}", kind.name, bfloat16 ? "bf16" : "fp32");
      INFO(name);
      const Words flags =
          kind.flags() + kFourHeads + layers(4) + way_to_run(number) +
          Words{fmt::format("--training.mixed_precision_param={}", bfloat16 ? "bfloat16" : "float32")};
      place.play(kind.ranks(), name, flags + accumulates(kind.data()));
      const auto pipeline = [&](const std::string& program, const Words& of_program) {
        place.play(2 * kind.ranks(), name + " " + program, flags + pipelines(2) + of_program);
        check_equals(place, name, name + " " + program);
      };
      for (const std::string& program : kSchedules) pipeline(program, schedule(program));
      pipeline("CSV", schedule_of_csv(place));
    }
  }
}

TEST_CASE("every schedule of Llama 3 has the bits of accumulation") { climb_schedules(Place(), false); }
TEST_CASE("every schedule of DeepSeek-V3 has the bits of accumulation") {
  climb_schedules(Place(kTinyDeepSeek), true);
}
TEST_CASE("every schedule of gpt-oss has the bits of accumulation") {
  climb_schedules(Place(gpt_oss().toml), true);
}

TEST_CASE("pipelines of four and of eight ranks have the bits of accumulation") {
  constexpr int kMany = 16;  // as many microbatches as stages
  const Place place;
  place.play(1, "accumulated", layers(kMany) + accumulates(1, kMany));
  for (const int ranks : {4, 8})
    for (const std::string& program : kSchedules) {
      const std::string name = fmt::format("{} {}", ranks, program);
      place.play(ranks, name, layers(kMany) + pipelines(ranks, kMany) + schedule(program));
      check_equals(place, "accumulated", name);
    }
}

// torchtitan's integration tests of pipelines, by their flags.
TEST_CASE("torchtitan's tests of pipelines train the debug models with the bits of accumulation") {
  struct Flavor {
    std::string model, schedule;
    int ranks, data;  // of a stage; those with different rows
    Words flags;
  };
  const auto degree = [](const std::string& of, int ranks) {
    return Words{fmt::format("--parallelism.{}_degree={}", of, ranks)};
  };
  const std::vector<Flavor> flavors = {
      {"llama3", "GPipe", 1, 1, {}},
      {"llama3", "ZBVZeroBubble", 1, 1, {}},
      {"llama3", "1F1B", 2, 2, degree("data_parallel_shard", 2)},
      {"llama3", "1F1B", 2, 1, degree("tensor_parallel", 2)},
      {"llama3", "Interleaved1F1B", 4, 2,
       degree("data_parallel_shard", 2) + degree("tensor_parallel", 2) + kEager},
      {"llama3", "1F1B", 4, 2, degree("data_parallel_shard", 2) + degree("context_parallel", 2)},
      {"deepseek_v3", "Interleaved1F1B", 4, 4,
       degree("data_parallel_shard", 4) + degree("expert_parallel", 2)},
  };
  for (const Flavor& flavor : flavors) {
    const Place place(fmt::format("\n[model]\nname = \"{}\"\nflavor = \"debugmodel\"\n", flavor.model));
    INFO(fmt::format("{} {} {}", flavor.model, flavor.schedule, fmt::join(flavor.flags, " ")));
    place.play(flavor.ranks, "accumulated", flavor.flags + accumulates(flavor.data));
    place.play(2 * flavor.ranks, "pipeline", flavor.flags + pipelines(2) + schedule(flavor.schedule));
    check_equals(place, "accumulated", "pipeline");
  }
}

}  // namespace
}  // namespace rondo

// Compares the planned memory of a run with the measured memory.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "tests/run/runs.h"

namespace rondo {

struct Memory {
  double planned = 0;   // bytes: inputs, arena, the largest temporaries of a kernel, Gloo's copy of a gather
  double host = 0;      // bytes planned for offloaded values
  double measured = 0;  // bytes: the peak of the allocator in a step
  double gather = 0;    // bytes of planned: Gloo's copy
  double waste = 0;     // bytes of planned: gaps in the arena at the peak
  double saved = 0;     // bytes that the blocks save for the backward
};

// Returns the memory of the second step of a run that must end well; eager runs have
// only `measured`.
inline Memory memory_of(const Place& place, int ranks, const std::string& name, const Words& flags) {
  const Words base = {"--training.steps=2", "--validation.enable=false", "--debug.hash_every=0"};
  place.play(ranks, name, base + flags);
  Memory memory;
  for (const std::string& line : lines_of(place.root() / name / "events.jsonl")) {
    const nlohmann::json event = nlohmann::json::parse(line);
    if (event.at("event") == "compiled") {
      memory.planned += event.at("memory").at("total_bytes").get<double>();
      memory.gather = event.at("memory").at("largest_gather_bytes").get<double>();
      memory.planned += memory.gather;
      memory.waste = event.at("memory").at("fragmentation_bytes").get<double>();
      memory.host = event.at("memory").at("host_bytes").get<double>();
      memory.saved = event.at("memory").at("saved_bytes").get<double>();
    }
    if (event.at("event") == "replaying") memory.planned += event.at("heap_bytes").get<double>();
  }
  memory.measured = place.metrics(name).back().at("memory_gib").get<double>() * 1024 * 1024 * 1024;
  return memory;
}

inline double eager_takes(const Place& place, int ranks, const Words& model, const std::string& mode,
                          const std::string& option) {
  return memory_of(place, ranks, "eager " + mode + " " + option,
                   model + Words{"--compile.enable=false", "--activation_checkpoint.mode=" + mode,
                                 "--activation_checkpoint.selective_ac_option=" + option})
      .measured;
}

// Checks for every policy that plan and measurement agree within 3 %, that saved bytes are in the
// order of the policies, and that a recorded step needs no more than the corresponding eager step.
inline void check_policies(int ranks, const Words& model) {
  const Place place;
  std::map<std::string, Memory> memory;
  for (const std::string policy :
       {"none", "default", "eager", "min_cut", "budget", "full", "sac_and_offload"}) {
    const Memory m = memory[policy] =
        memory_of(place, ranks, policy, model + Words{"--compile.memory_policy=" + policy});
    INFO(ranks << " ranks, " << policy << ": planned " << m.planned + m.host << ", measured " << m.measured);
    CHECK(m.measured < 1.03 * (m.planned + m.host));
    CHECK(m.measured > 0.97 * (m.planned + m.host));
  }
  CHECK(memory["full"].saved < memory["min_cut"].saved);
  CHECK(memory["min_cut"].saved <= memory["default"].saved);
  CHECK(memory["default"].saved < memory["none"].saved);
  CHECK(memory["sac_and_offload"].planned <= memory["default"].planned);
  CHECK(memory["sac_and_offload"].host > 0);
  // An eager step gathers and reduces one parameter at a time and holds none gathered. Buckets hold
  // more, so they are compared separately.
  const Words one_by_one = {
      "--compile.disable_passes=transformer_block_bucketing,overlap_fsdp,overlap_activations",
      "--parallelism.fsdp_reshard_after_forward=always"};
  for (const std::string mode : {"none", "full"}) {
    const double eager = eager_takes(place, ranks, model, mode, "op");
    const Memory recorded = memory_of(place, ranks, mode + " one by one",
                                      model + one_by_one + Words{"--compile.memory_policy=" + mode});
    WARN(ranks << " ranks, " << mode << ": the recorded step takes " << recorded.measured / eager
               << " of the eager one's peak of " << eager / (1 << 20) << " MiB, with buckets "
               << memory[mode].measured / eager);
    // The arena exists throughout the step, in addition to Gloo's copy. An eager step copies when
    // memory is not at its peak.
    CHECK(recorded.waste < 0.012 * recorded.planned);
    // It also has its own batch, and Gloo's threads free their copies at varying times.
    CHECK(recorded.measured <= 1.003 * eager + recorded.gather + recorded.waste);
  }
}

// Checks that an eager step that saves some activations peaks between steps that save all and none.
// REQUIRES: a model whose step peaks in its activations, not in the update.
inline void check_selective(int ranks, const Words& model) {
  const Place place;
  const double none = eager_takes(place, ranks, model, "none", "op");
  const double full = eager_takes(place, ranks, model, "full", "op");
  for (const std::string option : {"op", "2"}) {
    const double selective = eager_takes(place, ranks, model, "selective", option);
    WARN(ranks << " ranks, selective " << option << ": " << selective / (1 << 20) << " MiB");
    CHECK(selective < 0.98 * none);
    CHECK(selective > 1.02 * full);
  }
}

}  // namespace rondo

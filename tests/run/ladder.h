// The bitwise ladder at one point of the matrix of configurations: the eager step, the interpreted
// graph and the replayed graph have the same bits.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "compiler/passes/pipeline.h"
#include "tests/run/runs.h"

namespace rondo {

struct Point {
  int ranks;
  bool bfloat16, accumulates, never_reshards, document_attention;

  std::string name() const {
    return fmt::format("{} ranks, {}, {}, reshard {}, document attention {}", ranks,
                       bfloat16 ? "bfloat16" : "float32", accumulates ? "2 microbatches" : "1 microbatch",
                       never_reshards ? "never" : "default", document_attention ? "on" : "off");
  }
  Words flags() const {
    return {
        bfloat16 ? "--training.mixed_precision_param=bfloat16" : "--training.mixed_precision_param=float32",
        fmt::format("--training.global_batch_size={}", 2 * ranks * (accumulates ? 2 : 1)),
        never_reshards ? "--parallelism.fsdp_reshard_after_forward=never"
                       : "--parallelism.fsdp_reshard_after_forward=default",
        document_attention ? "--training.document_attention=true" : "--training.document_attention=false"};
  }
};

// The division of the ranks into replicas of the model and shards of each.
struct Grid {
  int replicate, shard;
  int ranks() const { return replicate * shard; }
  std::string name() const { return fmt::format("{} x {}", replicate, shard); }
  Words flags() const {
    return {fmt::format("--parallelism.data_parallel_replicate_degree={}", replicate),
            fmt::format("--parallelism.data_parallel_shard_degree={}", shard)};
  }
};

inline const Words kEager = {"--compile.enable=false"};
inline const Words kInterpreter = {"--compile.executor=interpreter"};
inline const Words kReplay = {"--compile.executor=replay"};

// A warm-up of two steps, and a validation after step 4. Later steps replay what step 2 recorded.
inline constexpr int kLadderSteps = 6;

// Runs a job that must end well. Later flags win.
inline void run_at(const Place& place, const Point& point, const std::string& name, const Words& flags) {
  INFO(point.name());
  place.play(point.ranks, name, point.flags() + steps(kLadderSteps) + Words{"--validation.freq=4"} + flags);
}

// Checks that two runs are equal on all their steps, including hashes of the whole state.
inline void check_equal(const Place& place, const std::string& a, const std::string& b,
                        int count = kLadderSteps) {
  const ProgramResult compared = place.compare(a, b);
  INFO(a << " and " << b << ":\n" << compared.output);
  CHECK(compared.exit_code == 0);
  CHECK_THAT(compared.output,
             Catch::Matchers::ContainsSubstring(fmt::format(
                 "equal bit for bit on {0} steps (loss, grad_norm, lr; state_hash on {0})", count)));
}

// Checks a run whose numerics round differently: its replay has the interpreter's bits, and the
// numbers of an exact run within `tolerance`. Returns the output of the replay.
inline std::string check_rounding(const Place& place, int ranks, const Words& without, const Words& with,
                                  const std::string& tolerance) {
  place.play(ranks, "without", without);
  const ProgramResult run = place.play(ranks, "with", with);
  INFO(run.output);
  place.play(ranks, "interpreted", with + kInterpreter);
  const ProgramResult same = place.compare("with", "interpreted");
  INFO(same.output);
  CHECK(same.exit_code == 0);
  const ProgramResult near = place.compare("without", "with", {"--tolerance", tolerance});
  INFO(near.output);
  CHECK(near.exit_code == 0);
  return run.output;
}

inline void climb(const Point& point, const Words& flags = {}, const Place& place = Place()) {
  INFO(point.name() << ", " << fmt::format("{}", fmt::join(flags, " ")));
  run_at(place, point, "eager", kEager + flags);
  run_at(place, point, "interpreter", kInterpreter + flags);
  run_at(place, point, "replay", kReplay + flags);
  check_equal(place, "eager", "interpreter");
  check_equal(place, "eager", "replay");
}

// A pass, and the passes that need it.
inline std::string with_dependants(const ir::PassInfo& pass) {
  std::string names(pass.name);
  for (const ir::PassInfo& other : ir::all_passes())
    if ((other.needs & pass.gives) != 0) names += "," + std::string(other.name);
  return names;
}

// Checks each exact pass on and off, and all of them.
inline void leave_out_passes(const Point& point, const std::string& executor) {
  INFO(point.name() << ", " << executor);
  const Place place;
  const Words flags = {"--compile.executor=" + executor, "--compile.memory_policy=default"};
  run_at(place, point, "all passes", flags);
  run_at(place, point, "no passes", flags + Words{"--compile.passes=[]"});
  check_equal(place, "all passes", "no passes");
  for (const ir::PassInfo& pass : ir::all_passes()) {
    if (!pass.in_default || pass.numerics != Numerics::exact) continue;
    const std::string left_out = with_dependants(pass);
    run_at(place, point, "without " + left_out, flags + Words{"--compile.disable_passes=" + left_out});
    check_equal(place, "all passes", "without " + left_out);
  }
}

inline const std::vector<std::string> kPolicies = {"none",   "default", "eager",          "min_cut",
                                                   "budget", "full",    "sac_and_offload"};

// Checks that every memory policy has the bits of the eager step.
inline void keep_and_recompute(const Point& point, const std::vector<std::string>& policies) {
  INFO(point.name());
  const Place place;
  run_at(place, point, "eager run", kEager);
  for (const std::string& policy : policies) {
    run_at(place, point, policy, kReplay + Words{"--compile.memory_policy=" + policy});
    check_equal(place, "eager run", policy);
  }
}

}  // namespace rondo

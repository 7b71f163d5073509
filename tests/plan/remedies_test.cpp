// Ways to make a job fit. Each one is planned again from its flags, on devices with memory chosen
// for the debug models.
#include "plan/remedies.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "config/load.h"

namespace rondo {
namespace {

const std::vector<std::string> kLlama = {"--model.flavor=debugmodel", "--training.local_batch_size=4",
                                         "--training.seq_len=256", "--model.n_layers=2"};
const std::vector<std::string> kExperts = {
    "--model.name=deepseek_v3",         "--model.flavor=debugmodel", "--training.local_batch_size=4",
    "--training.seq_len=256",           "--model.n_layers=2",        "--parallelism.expert_parallel_degree=2",
    "--activation_checkpoint.mode=full"};

struct Job {
  std::vector<std::string> words;
  std::int64_t world;
  ir::DeviceModel device = *ir::find_device_model("h200");

  Variant variant() const { return {load_config(words), world}; }
  JobPlan plan() const { return plan_job(load_config(words), world, 0, device); }
  // Sets a device with `bytes` for tensors.
  Job with_room(std::int64_t bytes) const {
    Job job = *this;
    job.device.memory_bytes = bytes + job.device.reserve_bytes;
    return job;
  }
  Remedies remedies(const SearchLimits& limits = {.seconds = 600}) const {
    return find_remedies(variant(), plan(), limits);
  }
  Job with(const Remedy& remedy) const {
    Job job = *this;
    job.world = remedy.world;
    for (const std::string& flag : remedy.flags)
      if (!flag.starts_with("--world")) job.words.push_back(flag);
    return job;
  }
};

std::int64_t state_bytes(const JobPlan& plan) {
  return plan.memory.input_bytes[static_cast<std::size_t>(ir::InputKind::parameter)] +
         plan.memory.input_bytes[static_cast<std::size_t>(ir::InputKind::optimizer)];
}

std::set<std::string> keys(const Remedy& remedy) {
  std::set<std::string> keys;
  for (const std::string& flag : remedy.flags) keys.insert(flag.substr(0, flag.find('=')));
  return keys;
}

// Between the bytes of the state and the bytes of the job.
Job too_large(const Job& job, double share) {
  const JobPlan plan = job.plan();
  const double room = static_cast<double>(plan.memory.total_bytes() - state_bytes(plan));
  return job.with_room(state_bytes(plan) + static_cast<std::int64_t>(share * room));
}

TEST_CASE("every remedy fits by the plan of its flags, and takes less than the job") {
  const Job job = too_large({GENERATE(kLlama, kExperts), 4}, 0.5);
  const JobPlan plan = job.plan();
  REQUIRE_FALSE(plan.fits());
  const Remedies remedies = job.remedies();
  REQUIRE_FALSE(remedies.found.empty());
  CHECK(remedies.not_searched == 0);
  for (const Remedy& remedy : remedies.found) {
    const JobPlan again = job.with(remedy).plan();
    CHECK(again.fits());
    CHECK(again.memory.total_bytes() == remedy.total_bytes);
    CHECK(remedy.total_bytes < plan.memory.total_bytes());
    CHECK(again.tokens_per_s() == remedy.tokens_per_s);
    CHECK(again.tokens_per_step == remedy.tokens_per_step);
  }
}

TEST_CASE("a deep model is searched by plans of a few layers, and its remedies fit whole") {
  std::vector<std::string> words = kLlama;
  words.back() = "--model.n_layers=24";
  const Job job = too_large({words, 2}, 0.4);
  const Remedies remedies = job.remedies({.seconds = 600, .remedies = 2});
  REQUIRE_FALSE(remedies.found.empty());
  CHECK(remedies.planned < remedies.estimated);
  for (const Remedy& remedy : remedies.found) CHECK(job.with(remedy).plan().fits());
}

TEST_CASE("remedies are sorted by speed, and none makes all changes of a faster one") {
  const Remedies remedies = too_large({kLlama, 4}, 0.5).remedies();
  REQUIRE(remedies.found.size() > 1);
  for (std::size_t i = 1; i < remedies.found.size(); ++i) {
    CHECK(remedies.found[i - 1].tokens_per_s >= remedies.found[i].tokens_per_s);
    const std::set<std::string> changed = keys(remedies.found[i]);
    for (std::size_t faster = 0; faster < i; ++faster) {
      const std::set<std::string> less = keys(remedies.found[faster]);
      CHECK_FALSE(std::includes(changed.begin(), changed.end(), less.begin(), less.end()));
    }
  }
}

TEST_CASE(
    "a step has fewer tokens only where no way fits with all of them, and never if their number is set") {
  std::vector<std::string> words = kLlama;
  words.push_back("--compile.numerics=rounds");
  const Job job = {words, 2};
  const JobPlan plan = job.plan();
  // This leaves no room for accumulated gradients.
  const Job tight = job.with_room(state_bytes(plan) + state_bytes(plan) / 3);
  const Remedies fewer = tight.remedies();
  REQUIRE_FALSE(fewer.found.empty());
  if (fewer.most_ranks == 2) CHECK(fewer.found[0].tokens_per_step < plan.tokens_per_step);
  Job set = tight;
  set.words.push_back("--training.global_batch_size=8");
  for (const Remedy& remedy : set.remedies().found) CHECK(remedy.tokens_per_step == plan.tokens_per_step);
}

TEST_CASE("where the state alone is too large, the search returns the fewest ranks that fit") {
  const Job job = {kLlama, 2};
  const std::int64_t state = state_bytes(job.plan());
  const Remedies remedies = job.with_room(state / 3).remedies();
  CHECK(remedies.least_ranks_for_state == 7);
  REQUIRE_FALSE(remedies.found.empty());
  CHECK(remedies.most_ranks >= 7);
  for (const Remedy& remedy : remedies.found) {
    CHECK(remedy.world == remedies.most_ranks);
    CHECK(remedy.flags.back() == "--world " + std::to_string(remedy.world));
    CHECK(job.with_room(state / 3).with(remedy).plan().fits());
  }
}

TEST_CASE("a search without time reports how much it left") {
  const Remedies remedies = too_large({kLlama, 4}, 0.5).remedies({.seconds = 0});
  CHECK(remedies.found.empty());
  CHECK(remedies.estimated == 0);
  CHECK(remedies.not_searched > 0);
}

}  // namespace
}  // namespace rondo

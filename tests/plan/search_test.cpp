// The search for ways that fit and for faster ones. Each way is planned again from its flags, on
// devices with memory chosen for the debug models.
#include "plan/search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>
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
  // Plans the rank with the most memory, as the search does.
  JobPlan plan() const { return plan_job(load_config(words), world, std::nullopt, device); }
  // Sets a device with `bytes` for tensors.
  Job with_room(std::int64_t bytes) const {
    Job job = *this;
    job.device.memory_bytes = bytes + job.device.reserve_bytes;
    return job;
  }
  SearchResult search(const SearchLimits& limits = {.plans = 40}) const {
    return search_ways(variant(), plan(), limits);
  }
  Job with(const Way& way) const {
    Job job = *this;
    job.world = way.world;
    for (const std::string& flag : way.flags)
      if (!flag.starts_with("--world")) job.words.push_back(flag);
    return job;
  }
};

std::int64_t state_bytes(const JobPlan& plan) {
  return plan.memory.input_bytes[static_cast<std::size_t>(ir::InputKind::parameter)] +
         plan.memory.input_bytes[static_cast<std::size_t>(ir::InputKind::optimizer)];
}

std::set<std::string> keys(const Way& way) {
  std::set<std::string> keys;
  for (const std::string& flag : way.flags) keys.insert(flag.substr(0, flag.find('=')));
  return keys;
}

// Between the bytes of the state and the bytes of the job.
Job too_large(const Job& job, double share) {
  const JobPlan plan = job.plan();
  const double room = static_cast<double>(plan.memory.total_bytes() - state_bytes(plan));
  return job.with_room(state_bytes(plan) + static_cast<std::int64_t>(share * room));
}

std::vector<Way> all_ways(const SearchResult& result) {
  std::vector<Way> ways = result.same_training;
  ways.insert(ways.end(), result.changed_training.begin(), result.changed_training.end());
  ways.insert(ways.end(), result.other_tokens.begin(), result.other_tokens.end());
  return ways;
}

TEST_CASE("every way fits by the plan of its flags, and takes less than the job") {
  const Job job = too_large({GENERATE(kLlama, kExperts), 4}, 0.5);
  const JobPlan plan = job.plan();
  REQUIRE_FALSE(plan.fits());
  const SearchResult result = job.search();
  REQUIRE_FALSE(result.same_training.empty());
  CHECK(result.estimated + result.planned <= 40);
  for (const Way& way : all_ways(result)) {
    const JobPlan again = job.with(way).plan();
    INFO(fmt::format("{}", fmt::join(way.flags, " ")));
    CHECK(again.fits());
    CHECK(again.memory.total_bytes() == way.total_bytes);
    CHECK(way.total_bytes < plan.memory.total_bytes());
    CHECK(again.tokens_per_s() == way.tokens_per_s);
    CHECK(again.step_s() == way.step_s);
    CHECK(again.tokens_per_step == way.tokens_per_step);
  }
  for (const Way& way : result.same_training) CHECK(way.changes.empty());
  for (const Way& way : result.changed_training) CHECK_FALSE(way.changes.empty());
}

TEST_CASE("two searches find the same ways, and one with fewer plans keeps its limit") {
  const Job job = too_large({kLlama, 4}, 0.5);
  const SearchResult first = job.search(), second = job.search(), shorter = job.search({.plans = 20});
  const auto flags = [](const SearchResult& result) {
    std::vector<std::vector<std::string>> flags_of;
    for (const Improvement& improvement : result.improvements) flags_of.push_back(improvement.way.flags);
    return flags_of;
  };
  CHECK(flags(first) == flags(second));
  CHECK(first.planned == second.planned);
  CHECK(shorter.estimated + shorter.planned <= 20);
  CHECK_FALSE(shorter.is_complete);
  CHECK(first.best() != nullptr);
}

TEST_CASE("a job that does not fit is answered within four plans where only the leanest way fits") {
  Job lean{kLlama, 4};
  lean.words.insert(lean.words.end(), {"--activation_checkpoint.mode=full", "--compile.numerics=rounds",
                                       "--training.local_batch_size=1", "--training.global_batch_size=16"});
  const std::int64_t least = lean.plan().memory.total_bytes();
  const SearchResult result = Job{kLlama, 4}.with_room(least).search();
  REQUIRE_FALSE(result.improvements.empty());
  CHECK(result.improvements[0].plans <= 4);
  CHECK(result.improvements[0].way.total_bytes == least);
}

TEST_CASE("each improvement is faster than those before, and is reported when it is found") {
  std::vector<double> reported;
  SearchLimits limits{.plans = 40};
  limits.improved = [&](const Improvement& improvement) { reported.push_back(improvement.way.tokens_per_s); };
  const SearchResult result = too_large({kLlama, 4}, 0.5).search(limits);
  REQUIRE(reported.size() == result.improvements.size());
  for (std::size_t i = 0; i < reported.size(); ++i)
    CHECK(reported[i] == result.improvements[i].way.tokens_per_s);
}

TEST_CASE("a job that fits and recomputes without need is told to save") {
  const Job job{{"--model.flavor=debugmodel", "--training.local_batch_size=4", "--training.seq_len=256",
                 "--model.n_layers=2", "--activation_checkpoint.mode=full"},
                4};
  const JobPlan plan = job.plan();
  REQUIRE(plan.fits());
  const SearchResult result = job.search({.plans = 50});
  REQUIRE_FALSE(result.same_training.empty());
  const Way& best = result.same_training[0];
  CHECK(best.tokens_per_s > plan.tokens_per_s());
  CHECK(job.with(best).plan().tokens_per_s() == best.tokens_per_s);
  Job saving = job;
  saving.words.back() = "--activation_checkpoint.mode=none";
  CHECK(best.tokens_per_s >= saving.plan().tokens_per_s());
}

TEST_CASE("a deep model is searched by plans of a few layers, and its ways fit whole") {
  std::vector<std::string> words = kLlama;
  words.back() = "--model.n_layers=24";
  const Job job = too_large({words, 2}, 0.4);
  const SearchResult result = job.search({.plans = 30, .ways = 2});
  REQUIRE_FALSE(result.same_training.empty());
  CHECK(result.planned < result.estimated);
  for (const Way& way : result.same_training) CHECK(job.with(way).plan().fits());
}

TEST_CASE("ways are sorted by speed, and none makes all changes of a faster one") {
  const SearchResult result = too_large({kLlama, 4}, 0.5).search({.plans = 100});
  REQUIRE(result.same_training.size() > 1);
  for (std::size_t i = 1; i < result.same_training.size(); ++i) {
    CHECK(result.same_training[i - 1].tokens_per_s >= result.same_training[i].tokens_per_s);
    const std::set<std::string> changed = keys(result.same_training[i]);
    for (std::size_t faster = 0; faster < i; ++faster) {
      const std::set<std::string> less = keys(result.same_training[faster]);
      CHECK_FALSE(std::includes(changed.begin(), changed.end(), less.begin(), less.end()));
    }
  }
}

TEST_CASE("a step has other numbers of tokens only in their own list, and never if their number is set") {
  std::vector<std::string> words = kLlama;
  words.push_back("--compile.numerics=rounds");
  const Job job = {words, 2};
  const JobPlan plan = job.plan();
  // This leaves no room for accumulated gradients.
  const Job tight = job.with_room(state_bytes(plan) + state_bytes(plan) / 3);
  const SearchResult fewer = tight.search();
  REQUIRE_FALSE(all_ways(fewer).empty());
  for (const Way& way : fewer.other_tokens) CHECK(way.tokens_per_step != plan.tokens_per_step);
  for (const Way& way : fewer.changed_training) CHECK(way.tokens_per_step == plan.tokens_per_step);
  Job set = tight;
  set.words.push_back("--training.global_batch_size=8");
  for (const Way& way : all_ways(set.search())) CHECK(way.tokens_per_step == plan.tokens_per_step);
}

TEST_CASE("where nothing else keeps the training, the state is in the host's memory") {
  Job job{kLlama, 2};
  job.words.push_back("--training.global_batch_size=8");
  Job lean = job;
  lean.words.insert(lean.words.end(), {"--activation_checkpoint.mode=full", "--compile.numerics=rounds",
                                       "--training.local_batch_size=1"});
  const JobPlan least = lean.plan();
  job = job.with_room(least.memory.total_bytes() - state_bytes(least) / 2);
  const auto on_host = [&] {
    std::vector<Way> ways = job.search().same_training;
    std::erase_if(ways, [](const Way& way) { return !keys(way).contains("--training.enable_cpu_offload"); });
    return ways;
  };
  const std::vector<Way> ways = on_host();
  REQUIRE_FALSE(ways.empty());
  for (const Way& way : ways) CHECK(job.with(way).plan().fits());
  job.device.host_bytes_per_s = job.device.peak_memory_bytes_per_s / 2;  // it shares the host's memory
  CHECK(on_host().empty());
}

TEST_CASE("where the state alone is too large, the search returns the fewest ranks that fit") {
  const Job job = {kLlama, 2};
  const std::int64_t state = state_bytes(job.plan());
  const SearchResult result = job.with_room(state / 3).search({.plans = 100});
  CHECK(result.least_ranks_for_state == 7);
  REQUIRE_FALSE(result.same_training.empty());
  CHECK(result.most_ranks >= 7);
  for (const Way& way : result.same_training) {
    CHECK(way.world == result.most_ranks);
    CHECK(way.flags.back() == "--world " + std::to_string(way.world));
    CHECK(job.with_room(state / 3).with(way).plan().fits());
  }
}

TEST_CASE("context parallelism with the loss in chunks can be planned without validation") {
  const std::vector<std::string> words = {
      "--model.flavor=debugmodel", "--model.n_layers=2",        "--training.seq_len=256",
      "--validation.enable=false", "--compile.numerics=rounds", "--parallelism.context_parallel_degree=2"};
  CHECK(Job{words, 2}.plan().tokens_per_s() > 0);
}

TEST_CASE("a search without plans reports that it is not complete") {
  const SearchResult result = too_large({kLlama, 4}, 0.5).search({.plans = 0});
  CHECK(result.same_training.empty());
  CHECK(result.estimated == 0);
  CHECK_FALSE(result.is_complete);
}

}  // namespace
}  // namespace rondo

// Plans with one gradient reduction a step: bytes sent and held, and when a plan advises it.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "config/load.h"
#include "plan/plan.h"
#include "plan/search.h"
#include "plan/way_plans.h"

namespace rondo {
namespace {

using Catch::Approx;
using Words = std::vector<std::string>;

const std::string kSync = "--parallelism.fsdp_gradient_sync=";
constexpr std::int64_t kShards = 4;

// Returns the configuration, with four microbatches a step.
Variant syncing(const std::string& sync) {
  return {load_config({"--model.flavor=debugmodel", "--model.n_layers=2", "--training.local_batch_size=4",
                       "--training.seq_len=256", "--training.global_batch_size=64", kSync + sync}),
          kShards};
}
JobPlan planned(const std::string& sync, const ir::DeviceModel& device) {
  return plan_job(syncing(sync).config, kShards, std::nullopt, device);
}
ir::DeviceModel with_memory(ir::DeviceModel device, std::int64_t bytes) {
  device.memory_bytes = device.reserve_bytes + bytes;
  return device;
}

// Enough for the changes of single keys.
const SearchLimits kLimits{.plans = 45, .ways = 1000};
// Returns whether one of the better ways that the search met has these flags.
bool has_way(const SearchResult& result, const Words& flags) {
  const auto is_it = [&](const auto& way) { return way.flags == flags; };
  return std::any_of(result.same_training.begin(), result.same_training.end(), is_it) ||
         std::any_of(result.improvements.begin(), result.improvements.end(),
                     [&](const Improvement& improvement) { return is_it(improvement.way); });
}

TEST_CASE("gradients reduced once a step are sent once and held whole") {
  const ir::DeviceModel device = *ir::find_device_model("h200");
  const JobPlan often = planned("microbatch", device), once = planned("step", device);
  const double gradients = 4 * static_cast<double>(often.parameters), shard = gradients / kShards;
  const auto sent = [](const JobPlan& p) { return p.step.of(ir::CollectiveKind::reduce_scatter).sent_bytes; };
  CHECK(sent(once) == Approx(gradients - shard));
  CHECK(sent(often) == Approx(4 * (gradients - shard)));
  const auto buffers = [](const JobPlan& p) {
    return static_cast<double>(p.memory.input_bytes[static_cast<std::size_t>(ir::InputKind::buffer)]);
  };
  CHECK(buffers(once) - buffers(often) == Approx(gradients - shard));
}

TEST_CASE("a job whose whole gradients do not fit may reduce them in every microbatch") {
  const ir::DeviceModel device = *ir::find_device_model("h200");
  const std::int64_t few = planned("microbatch", device).memory.total_bytes(),
                     many = planned("step", device).memory.total_bytes();
  REQUIRE(few < many);
  const ir::DeviceModel tight = with_memory(device, (few + many) / 2);
  CHECK(has_way(search_ways(syncing("step"), planned("step", tight), kLimits), {kSync + "microbatch"}));
}

TEST_CASE("one gradient reduction a step is advised where it is faster and fits") {
  ir::DeviceModel slow = *ir::find_device_model("h200");
  slow.within_node.bytes_per_s /= 1000;  // no backward hides the communication of a microbatch
  const std::int64_t many = planned("step", slow).memory.total_bytes();
  const auto is_advised = [&](std::int64_t bytes) {
    const ir::DeviceModel device = with_memory(slow, bytes);
    const SearchedJob searched{syncing("microbatch"), 64, &device};
    WayPlans plans(searched, planned("microbatch", device), 10);
    const auto move =
        std::find_if(moves().begin(), moves().end(), [](const Move& m) { return m.name == "gradient sync"; });
    REQUIRE(move != moves().end());
    const std::vector<Variant> ways = move->choices(searched.job, searched);
    REQUIRE(ways.size() == 1);
    CHECK(flags_between(searched.job, ways[0]) == Words{kSync + "step"});
    return plans.whole(ways[0]).is_better_than(plans.estimate(searched.job));
  };
  CHECK(is_advised(many));
  CHECK_FALSE(is_advised(many - 1));
}

}  // namespace
}  // namespace rondo

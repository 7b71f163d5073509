// Calls the flight recorder directly, without process groups.
#include "parallel/groups/comm_record.h"

#include <malloc.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "support/crash_report.h"
#include "support/scope.h"
#include "support/watch/progress.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

const comm_record::Call kGather = {"all_gather", "dp", "Float", 256, 512};
const comm_record::Call kSum = {"all_reduce", "all", "Float", 3, 3};

nlohmann::json dump() { return nlohmann::json::parse(comm_record::to_json(1, 4, "a test")); }

// Turns the record off when the test ends.
struct Kept {
  explicit Kept(std::size_t entries) { comm_record::keep(entries); }
  ~Kept() {
    comm_record::keep(0);
    set_current_work({});
  }
};

TEST_CASE("nothing is recorded while the record is off") {
  const Kept off(0);
  CHECK(comm_record::called(kGather) == comm_record::kNotRecorded);
  comm_record::waited_for(comm_record::kNotRecorded);
  comm_record::done(comm_record::kNotRecorded);
  CHECK(comm_record::is_empty());
  CHECK(comm_record::under_way().empty());
  CHECK(dump()["entries"].empty());
}

TEST_CASE("an entry names collective, group, op, module, phase, step and state") {
  const Kept kept(8);
  progress::at_step(12);
  set_current_work({"aten.op", "layers.0", Phase::backward});
  const std::int64_t first = comm_record::called(kGather);
  comm_record::waited_for(first);
  comm_record::done(first);
  set_current_work({});
  comm_record::called(kSum);
  const nlohmann::json file = dump();
  CHECK(file["rank"] == 1);
  CHECK(file["world_size"] == 4);
  CHECK(file["step"] == 12);
  CHECK(file["reason"] == "a test");
  REQUIRE(file["entries"].size() == 2);
  const nlohmann::json gather = file["entries"][0], sum = file["entries"][1];
  CHECK(gather["collective"] == "all_gather");
  CHECK(gather["group"] == "dp");
  CHECK(gather["op"] == "aten.op");
  CHECK(gather["module"] == "layers.0");
  CHECK(gather["phase"] == "backward");
  CHECK(gather["input_elements"] == 256);
  CHECK(gather["output_elements"] == 512);
  CHECK(gather["state"] == "done");
  CHECK(sum["state"] == "called");
  CHECK(sum["module"] == "");
  CHECK(sum["phase"] == "");
  CHECK(file["under_way"]["number"] == sum["number"]);
}

TEST_CASE("an eager step's collective belongs to the open scopes") {
  const Kept kept(8);
  const PhaseScope phase(Phase::backward);
  const ModuleScope module("layers.1");
  comm_record::called(kGather);
  CHECK(dump()["entries"][0]["module"] == "layers.1");
  CHECK(dump()["entries"][0]["phase"] == "backward");
}

TEST_CASE("an entry with a waiter comes before one that was only called") {
  const Kept kept(8);
  comm_record::called(kGather);
  const std::int64_t second = comm_record::called(kSum);
  CHECK_THAT(comm_record::under_way(), ContainsSubstring("all_gather of 256 Float in group dp"));
  comm_record::waited_for(second);
  CHECK_THAT(comm_record::under_way(), ContainsSubstring("all_reduce of 3 Float in group all") &&
                                           ContainsSubstring("waited for 0.0 s"));
}

TEST_CASE("`keep` takes all memory of a record, and repeated calls take no more") {
  constexpr std::size_t kEntries = 20'000;
  const auto in_use = [] { return static_cast<std::int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  const std::int64_t before = in_use();
  const Kept kept(kEntries);
  const auto call_all = [] {
    for (const char* group : {"dp", "tp", "all_the_ranks_of_a_stage"})
      for (const char* collective : {"all_gather", "reduce_scatter", "all_reduce"})
        comm_record::done(comm_record::called({collective, group, "BFloat16", 4096, 8192}));
  };
  call_all();
  const std::int64_t at_start = in_use();
  CHECK(at_start - before >= static_cast<std::int64_t>(comm_record::record_bytes(kEntries)));
  for (int step = 0; step < 3'000; ++step) call_all();  // more than once around
  CHECK(in_use() == at_start);
}

TEST_CASE("new entries overwrite the oldest, and each group has its own count") {
  const Kept kept(3);
  std::int64_t oldest = comm_record::called(kGather);
  for (int i = 0; i < 4; ++i) comm_record::done(comm_record::called(i % 2 == 0 ? kSum : kGather));
  comm_record::done(oldest);  // is overwritten
  const nlohmann::json entries = dump()["entries"];
  REQUIRE(entries.size() == 3);
  CHECK(entries[0]["number"] == 2);
  CHECK(entries[2]["number"] == 4);
  CHECK(entries[1]["group"] == "all");
  CHECK(entries[1]["in_group"] == 1);
  CHECK(entries[2]["group"] == "dp");
  CHECK(entries[2]["in_group"] == 2);
}

}  // namespace
}  // namespace rondo

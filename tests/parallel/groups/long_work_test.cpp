// Tests outcomes of ranks: their form between ranks, and the work of rank 0 with one rank.
#include "parallel/groups/long_work.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <stdexcept>

namespace rondo {
namespace {

// Returns the error of value().
Error error_of(const RankOutcome& outcome) {
  try {
    outcome.value();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("value() threw nothing");
}

ProcessGroups one_rank() { return {RankEnvironment{}, "all", std::chrono::seconds(1)}; }

}  // namespace

TEST_CASE("a text is the same after a transfer, with any spaces and newlines") {
  const std::string text = GENERATE("", " ", "0", "5 step-5", " run/check point\n\nstep-5\n");
  const RankOutcome received = RankOutcome::from_wire(RankOutcome{.text = text}.to_wire());
  CHECK(received.ok());
  CHECK(received.value() == text);
}

TEST_CASE("an error has its code and message after a transfer, and value() throws it") {
  const ExitCode code = GENERATE(ExitCode::internal, ExitCode::checkpoint, ExitCode::do_not_requeue);
  const RankOutcome received = RankOutcome::from_wire(RankOutcome{code, "rank 1: no\nspace"}.to_wire());
  CHECK_FALSE(received.ok());
  CHECK(error_of(received).code() == code);
  CHECK(error_of(received).what() == std::string("rank 1: no\nspace"));
}

TEST_CASE("do_on_first returns the text or the Error of rank 0, and other exceptions propagate") {
  ProcessGroups groups = one_rank();
  CHECK(do_on_first(
            groups, [] { return std::string("step-5"); }, "text", "choosing")
            .value() == "step-5");
  const auto fails = []() -> std::string { throw Error(ExitCode::resources, "the disk is full"); };
  const RankOutcome failure = do_on_first(groups, fails, "failure", "committing");
  CHECK(error_of(failure).code() == ExitCode::resources);
  CHECK(error_of(failure).what() == std::string("the disk is full"));
  const auto is_wrong = []() -> std::string { throw std::logic_error("a bug"); };
  CHECK_THROWS_AS(do_on_first(groups, is_wrong, "bug", "committing"), std::logic_error);
}

}  // namespace rondo

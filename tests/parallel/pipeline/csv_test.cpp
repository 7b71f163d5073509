#include "parallel/pipeline/csv.h"

#include <catch2/catch_test_macros.hpp>

#include "parallel/pipeline/lower.h"
#include "tests/parallel/pipeline/programs.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::pipeline {
namespace {

std::string error_of_csv(const std::string& text) {
  return error_of([&] { read_csv(text, "s.csv"); });
}

TEST_CASE("every schedule, with messages and without, survives a round trip through CSV") {
  int schedules = 0;
  for_each_schedule([&](const Schedule& schedule, const PipelineShape& shape) {
    INFO(name_of(schedule, shape));
    const Program program = make_program(schedule, shape);
    const Program lowered = lower(program);
    for (const Program& original : {program, lowered}) {
      const Program read = read_csv(to_csv(original), "s.csv");
      REQUIRE(read.ranks == original.ranks);
      REQUIRE(read.rank_of_stage == original.rank_of_stage);
      REQUIRE(read.microbatches == original.microbatches);
    }
    ++schedules;
  });
  CHECK(schedules > 300);
}

TEST_CASE("cells are in the columns of their time steps, and rows may have blanks, CRLF and empty cells") {
  CHECK(to_csv(make_program(schedule_named("1F1B"), {2, 1, 2})) ==
        "0F0,0F1,,0B0,,0B1\n"
        ",1F0,1B0,1F1,1B1\n");
  const Program read = read_csv("0F0, 0F1,,,0B0 ,,0B1\r\n,1F0,1B0,,1F1,1B1,,\r\n\r\n", "s.csv");
  CHECK(read.ranks == make_program(schedule_named("1F1B"), {2, 1, 2}).ranks);
}

TEST_CASE("every type of action has torch's text") {
  const std::vector<std::string> texts = {"0F3",       "1I2",      "0W0",         "2B5",
                                          "7SEND_F1",  "7RECV_F1", "1SEND_B0",    "1RECV_B0",
                                          "12UNSHARD", "3RESHARD", "0REDUCE_GRAD"};
  for (const std::string& text : texts) {
    Action action;
    CHECK(read_action(text, action) == "");
    CHECK(print(action) == text);
  }
  CHECK(to_csv(read_csv("0F0,0F1,(0F2;0B0)OVERLAP_F_B,( 0F3 ; 0I1 )OVERLAP_F_B,0W1,0B2,0B3\n", "s.csv")) ==
        "0F0,0F1,(0F2;0B0)OVERLAP_F_B,(0F3;0I1)OVERLAP_F_B,0W1,0B2,0B3\n");
}

TEST_CASE("an error for a bad cell names row, column and rule") {
  const std::string rule = " must be a stage, a type and a microbatch, such as 0F3, 2SEND_B1 or 1REDUCE_GRAD";
  CHECK(error_of_csv("0F0,0B0\n1F0,,1X0\n") == "3: s.csv: row 2, column 3: \"1X0\"" + rule);
  CHECK(error_of_csv("F0\n") == "3: s.csv: row 1, column 1: \"F0\"" + rule);
  CHECK(error_of_csv("0f0\n") == "3: s.csv: row 1, column 1: \"0f0\"" + rule);
  CHECK(error_of_csv("0F\n") ==
        "3: s.csv: row 1, column 1: \"0F\" must end in a microbatch from 0 to 9999999");
  CHECK(error_of_csv("0F0 0\n") ==
        "3: s.csv: row 1, column 1: \"0F0 0\" must end in a microbatch from 0 to 9999999");
  CHECK(error_of_csv("65535F0\n") ==
        "3: s.csv: row 1, column 1: \"65535F0\" must have a stage from 0 to 65534");
  CHECK(error_of_csv("0UNSHARD1\n") ==
        "3: s.csv: row 1, column 1: \"0UNSHARD1\" must name no microbatch: UNSHARD is per stage");
  const std::string pair = " must be a pair of a forward and a backward, such as (0F3;1B2)OVERLAP_F_B";
  for (const char* cell : {"(0F0;0B0)", "(0F0)OVERLAP_F_B", "(0B0;0F0)OVERLAP_F_B", "(0F0;0W0)OVERLAP_F_B",
                           "(0F0;0B0;0B1)OVERLAP_F_B", "()OVERLAP_F_B"})
    CHECK(error_of_csv(cell) == std::string("3: s.csv: row 1, column 1: \"") + cell + "\"" + pair);
}

TEST_CASE("gaps in stages and microbatches, empty rows and stages on two ranks are refused") {
  CHECK(error_of_csv("") == "3: s.csv: no forward; write an F for each stage and microbatch");
  CHECK(error_of_csv("0F0,0F9999999\n") ==
        "3: s.csv: 1 stages and 10000000 microbatches, but only 2 forwards; number both from 0 without gaps, "
        "and run each microbatch once through each stage");
  CHECK(error_of_csv("0F0,0B0\n\n1F0,1B0\n") ==
        "3: s.csv: rank 1 has no action; give each rank at least one stage");
  CHECK(error_of_csv("0F0,0B0\n1F0,0B0\n") ==
        "3: s.csv: rank 1 has 0B0, but stage 0 is on rank 0; put a stage on one rank only");
}

}  // namespace
}  // namespace rondo::pipeline

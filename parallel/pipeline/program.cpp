// program_of refuses only programs for which no table can be allocated; check() refuses all others.
// Edges are numbered by their ranks, so that lists of them are sorted.
#include "parallel/pipeline/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "support/error.h"

namespace rondo::pipeline {

std::int64_t Program::action_count() const {
  std::int64_t count = 0;
  for (const auto& actions : ranks) count += std::ssize(actions);
  return count;
}

bool Program::has_messages() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const std::vector<Action>& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& a) { return is_message(a.type); });
  });
}

bool Program::reads_message(const Action& compute) const {
  if (compute.type == ActionType::backward_weight) return false;
  const bool forward = compute.type == ActionType::forward;
  if (compute.stage == (forward ? 0 : stages - 1)) return false;
  const std::int32_t neighbour = forward ? compute.stage - 1 : compute.stage + 1;
  return rank_of_stage[neighbour] != rank_of_stage[compute.stage];
}

Program program_of(std::vector<std::vector<Action>> ranks, const std::string& place) {
  Program program;
  program.ranks = std::move(ranks);
  const auto fail = [&](const std::string& problem, const std::string& rule) {
    throw Error(ExitCode::config, fmt::format("{}: {}; {}", place, problem, rule));
  };
  std::int64_t forwards = 0;
  for (const auto& actions : program.ranks)
    for (const Action& action : actions) {
      program.stages = std::max<std::int32_t>(program.stages, action.stage + 1);
      program.microbatches = std::max(program.microbatches, action.microbatch + 1);
      forwards += action.type == ActionType::forward ? 1 : 0;
    }
  if (forwards == 0) fail("no forward", "write an F for each stage and microbatch");
  // Keeps tables of stages times microbatches no larger than the text.
  if (static_cast<std::int64_t>(program.stages) * program.microbatches > forwards)
    fail(fmt::format("{} stages and {} microbatches, but only {} forwards", program.stages,
                     program.microbatches, forwards),
         "number both from 0 without gaps, and run each microbatch once through each stage");
  program.rank_of_stage.assign(program.stages, -1);
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (const Action& action : program.ranks[r]) {
      std::int32_t& home = program.rank_of_stage[action.stage];
      if (home < 0) home = static_cast<std::int32_t>(r);
      if (home != static_cast<std::int32_t>(r))
        fail(fmt::format("rank {} has {}, but stage {} is on rank {}", r, print(action), action.stage, home),
             "put a stage on one rank only");
    }
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    if (program.ranks[r].empty())
      fail(fmt::format("rank {} has no action", r), "give each rank at least one stage");
  return program;
}

Edges::Edges(const Program& program) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> numbers;
  const auto for_each = [&](const auto& take) {
    for (std::int32_t stage = 0; stage < program.stages; ++stage)
      for (const int direction : {0, 1}) {
        const std::int32_t to = std::clamp(direction == 0 ? stage + 1 : stage - 1, 0, program.stages - 1);
        const std::pair ends(program.rank_of_stage[stage], program.rank_of_stage[to]);
        if (ends.first != ends.second) take(stage, direction, ends);
      }
  };
  for_each([&](std::int32_t, int, const auto& pair) { numbers.try_emplace(pair, 0); });
  for (auto& [pair, number] : numbers) {
    number = ends.size();
    ends.push_back(pair);
  }
  for (std::vector<std::size_t>& of_stage : of_stage_) of_stage.resize(program.stages);
  for_each([&](std::int32_t stage, int direction, const auto& pair) {
    of_stage_[direction][stage] = numbers.at(pair);
  });
}

std::int32_t rank_of(std::int32_t stage, std::int32_t ranks, StageStyle style) {
  const std::int32_t turn = stage / ranks, place = stage % ranks;
  return style == StageStyle::v && turn % 2 == 1 ? ranks - 1 - place : place;
}

}  // namespace rondo::pipeline

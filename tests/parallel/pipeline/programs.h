// Schedules in many shapes, for tests of properties that all of them have.
#pragma once

#include <functional>
#include <string>

#include "parallel/pipeline/schedules.h"

namespace rondo::pipeline {

// Calls check(schedule, shape) for every schedule and every small shape that it supports.
inline void for_each_schedule(const std::function<void(const Schedule&, const PipelineShape&)>& check) {
  for (const Schedule& schedule : schedules())
    for (const std::int32_t ranks : {1, 2, 3, 4, 7, 8})
      for (std::int32_t stages = schedule.least_stages_per_rank;
           stages <= std::min(schedule.most_stages_per_rank, 4); ++stages)
        for (const std::int32_t microbatches : {1, 2, 3, ranks, 2 * ranks, 2 * ranks + 1, 4 * ranks}) {
          if (schedule.make == dual_pipe_v && microbatches < 2 * ranks) continue;
          const std::int32_t rounds = std::max(1, microbatches / ranks);
          const bool in_rounds =
              schedule.make == interleaved_1f1b || schedule.make == interleaved_zero_bubble;
          if (in_rounds && microbatches % rounds != 0) continue;
          check(schedule, {ranks, stages, microbatches});
        }
}

inline std::string name_of(const Schedule& schedule, const PipelineShape& shape) {
  return schedule.name + " " + std::to_string(shape.ranks) + " ranks, " +
         std::to_string(shape.stages_per_rank) + " stages, " + std::to_string(shape.microbatches) +
         " microbatches";
}

}  // namespace rondo::pipeline

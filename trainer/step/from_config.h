// What the parts of a run take from its configuration: the only place where both are known.
#pragma once

#include <filesystem>
#include <vector>

#include "compiler/compile.h"
#include "parallel/groups/groups.h"
#include "parallel/rendezvous/environment.h"
#include "trainer/config/derived.h"
#include "trainer/config/schema/job_config.h"
#include "trainer/data/loader.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {

// The groups that the run's collectives need beside that of all ranks, as `rank` sees them; the same names on
// all.
std::vector<GroupMembers> process_groups(const JobConfig& config, const Layout& layout, int rank);
TrainStepOptions step_options(const JobConfig& config, const Layout& layout, std::int64_t rank);
// `graph_folder`: where graphs are written; empty on ranks that write none.
CompileRequest compile_request(const JobConfig& config, const std::string& device,
                               const std::filesystem::path& graph_folder);
DataOptions training_data(const JobConfig& config, const Layout& layout, const RankEnvironment& environment);
// Fixed batches: the held-out documents of the training set, or all of a set of its own.
DataOptions validation_data(const JobConfig& config, const Layout& layout,
                            const RankEnvironment& environment);

}  // namespace rondo

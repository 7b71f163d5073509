// What the parts of a run take from its configuration: the only place where both are known.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/compile.h"
#include "config/derived.h"
#include "config/matmul_table.h"
#include "config/pipeline_layout.h"
#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "launch/rendezvous/environment.h"
#include "parallel/groups/groups.h"
#include "trainer/step/functions/train_step.h"
#include "trainer/step/step_program.h"

namespace rondo {

// The groups that the run's collectives need beside that of all ranks, as `rank` sees them; the same names on
// all. Behind them those of its messages: for each edge of the pipeline's program that it is an end of, by
// sender and receiver, the two ranks in this order, named by edge_name. `pipeline`: of this configuration and
// layout.
std::vector<GroupMembers> process_groups(const JobConfig& config, const Layout& layout,
                                         const std::optional<PipelineLayout>& pipeline, int rank);
TrainStepOptions step_options(const JobConfig& config, const Layout& layout, std::int64_t rank);
// `graph_folder`: where graphs are written; empty on ranks that write none. `matmuls`: what was read of
// compile.matmul_algorithms; without it products are LibTorch's.
CompileRequest compile_request(const JobConfig& config, const std::string& device,
                               const std::filesystem::path& graph_folder,
                               const std::optional<MatmulTable>& matmuls = std::nullopt);
// The functions of a rank: of the whole model, or of the stages that it has of a pipeline.
StepProgram compile_step(const JobConfig& config, const Layout& layout,
                         const std::optional<PipelineLayout>& pipeline, std::int64_t rank,
                         const std::shared_ptr<const Decoder>& model, const CompileRequest& request);
DataOptions training_data(const JobConfig& config, const Layout& layout, const RankEnvironment& environment);
// Fixed batches: the held-out documents of the training set, or all of a set of its own.
DataOptions validation_data(const JobConfig& config, const Layout& layout,
                            const RankEnvironment& environment);

}  // namespace rondo

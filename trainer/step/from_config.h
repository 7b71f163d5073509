// Translates the configuration into the options of the compiler, the data and the step: the only
// place that knows both.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "config/derived/layout.h"
#include "config/derived/matmul_table.h"
#include "config/derived/pipeline_layout.h"
#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "launch/rendezvous/environment.h"
#include "parallel/groups/groups.h"
#include "trainer/step/functions/train_step.h"
#include "trainer/step/step_program.h"

namespace rondo {

// Returns the process groups of `rank` other than that of all ranks, in the same order on all
// ranks. With a pipeline they are followed by one group for each edge that the rank sends or
// receives over: the sender, then the receiver, named by edge_name.
std::vector<GroupMembers> process_groups(const JobConfig& config, const Layout& layout,
                                         const std::optional<PipelineLayout>& pipeline, int rank);
TrainStepOptions step_options(const JobConfig& config, const Layout& layout, std::int64_t rank);
// `graph_folder`: where graphs are written; empty on ranks that write none. `matmuls`: the table of
// compile.matmul_algorithms; without it LibTorch chooses the algorithms.
CompileRequest compile_request(const JobConfig& config, TargetDevice device,
                               const std::filesystem::path& graph_folder,
                               const std::optional<MatmulTable>& matmuls = std::nullopt);
// Returns the weight decay of a model's parameters: "0.1 on 21 tensors, none on 9 tensors".
std::string weight_decay_text(const JobConfig& config, const Decoder& model);
// Compiles the functions of a rank: of the whole model, or of its stages of a pipeline.
StepProgram compile_step(const JobConfig& config, const Layout& layout,
                         const std::optional<PipelineLayout>& pipeline, std::int64_t rank,
                         const std::shared_ptr<const Decoder>& model, const CompileRequest& request);
DataOptions training_data(const JobConfig& config, const Layout& layout, const RankEnvironment& environment);
// Returns options of fixed batches, drawn from all documents: those held out of the training set,
// or another data set.
DataOptions validation_data(const JobConfig& config, const Layout& layout,
                            const RankEnvironment& environment);

}  // namespace rondo

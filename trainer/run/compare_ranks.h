// What all ranks must have alike, compared as soon as they have met. Ranks with other settings would train
// together and give wrong numbers; ranks whose steps call different collectives would wait for each other for
// ever. All ranks call both functions and all throw, with one text. Hashes are exchanged once a function, and
// texts only where those differ.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "config/schema/job_config.h"
#include "parallel/groups/groups.h"
#include "parallel/mesh.h"

namespace rondo {

// One line for each key of the configuration, "optimizer.lr = 0.0008", and for each of `more`. Left out is
// what may differ between nodes: the section [job], and paths outside of the run folder.
std::vector<std::string> settings_to_compare(const JobConfig& config, const std::vector<std::string>& more);

// Throws Error(config) naming the first lines that differ, with the values of rank 0 and of another rank.
void compare_settings(const std::vector<std::string>& settings, ProcessGroups& groups);

// The steps are the same ones in the same order on all ranks of a pipeline's stage, which are compared with
// the first of them. Throws Error(graph) naming the first collective that differs.
void compare_collectives(const std::vector<const CompiledStep*>& steps, const Mesh& mesh,
                         ProcessGroups& groups);

// What those two say of a difference. `rank` is the other rank's.
std::string describe_settings(const std::string& rank_0, const std::string& other, int rank);
// Texts: of each step its name, a line that ends with a colon, and a line for each collective. `first`: the
// rank that the other one is compared with.
std::string describe_collectives(const std::string& text_of_first, const std::string& other, int first,
                                 int rank);

}  // namespace rondo

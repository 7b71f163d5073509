// Compares settings and collectives of all ranks as soon as they have joined. Ranks with other
// settings would train together and give wrong numbers; ranks with other collectives would wait for
// each other for ever. All ranks call both functions, and all throw the same text. Each exchanges
// one hash, and texts only where hashes differ.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "config/schema/job_config.h"
#include "parallel/groups/groups.h"
#include "parallel/mesh.h"

namespace rondo {

// Returns one line for each key, "optimizer.lr = 0.0008", and the lines `more`. Leaves out what may
// differ between nodes: the section [job], and paths outside of the run folder.
std::vector<std::string> settings_to_compare(const JobConfig& config, const std::vector<std::string>& more);

// Throws Error(config) naming the first lines that differ, with the values of rank 0 and of another rank.
void compare_settings(const std::vector<std::string>& settings, ProcessGroups& groups);

// `steps` are the same functions in the same order on all ranks of a stage of a pipeline, which are
// compared with the first of them. Throws Error(graph) naming the first collective that differs.
void compare_collectives(const std::vector<const CompiledStep*>& steps, const Mesh& mesh,
                         ProcessGroups& groups);

// The messages of these two errors. `rank` is the other rank.
std::string describe_settings(const std::string& rank_0, const std::string& other, int rank);
// The texts have the name of each function as a line that ends with a colon, then a line for each
// collective. `first`: the rank that `rank` is compared with.
std::string describe_collectives(const std::string& text_of_first, const std::string& other, int first,
                                 int rank);

}  // namespace rondo

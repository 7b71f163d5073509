// Compares what ranks found, their settings and their collectives as soon as they have joined.
// Ranks with different settings would train together and compute wrong numbers. Ranks with
// different collectives would wait for each other for ever, and so would ranks without steps left.
// All ranks call these functions, and all throw the same text. Each function exchanges one number,
// and texts only if these differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"
#include "parallel/groups/groups.h"
#include "parallel/mesh.h"

namespace rondo {

// Returns one line per key, "optimizer.lr = 0.0008", followed by the lines `more`. Omits settings
// that may differ between nodes: the section [job], and paths outside of the run folder.
std::vector<std::string> settings_to_compare(const JobConfig& config, const std::vector<std::string>& more);

// `finished`: whether this rank finds in `checkpoints`, a folder, that all steps are done. Throws
// Error(checkpoint) with two ranks, their hosts and folders if only some ranks do.
void compare_finished(bool finished, const std::string& checkpoints, ProcessGroups& groups);

// Throws Error(config) that names the first differing lines, with the values of rank 0 and of
// another rank.
void compare_settings(const std::vector<std::string>& settings, ProcessGroups& groups);

// Compares the ranks of a pipeline stage with the first of them. `steps` are the same functions in
// the same order on these ranks. Throws Error(graph) that names the first differing collective.
void compare_collectives(const std::vector<const CompiledStep*>& steps, const Mesh& mesh,
                         ProcessGroups& groups);

// Returns a number that the ranks of a node have in common.
std::int64_t node_of(const RankEnvironment& environment);
// Returns a warning if the ranks of a tensor-parallel group are on several nodes, or else "".
// `nodes`: node_of() of every rank.
std::string tensor_parallelism_across_nodes(const std::vector<std::int64_t>& nodes, const Mesh& mesh);

// Format the messages of these two errors. `rank` is the other rank.
std::string describe_settings(const std::string& rank_0, const std::string& other, int rank);
// A text has the name of each function as a line that ends with a colon, then one line per
// collective. `first`: the rank that `rank` is compared with.
std::string describe_collectives(const std::string& text_of_first, const std::string& other, int first,
                                 int rank);

}  // namespace rondo

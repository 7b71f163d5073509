// The text form of a graph, for dumps, golden files and `rondo opt`.
//
//   graph train_step
//   block layers.0
//
//   axis dp 2
//   group dp dp
//
//   parameter %0: f32[32768] layers.0.wq.weight bucket layers.0 on dp 0
//   batch %1: i64[4,128] tokens
//
//   forward layers.0.attention
//     %2: f32[256,256]{1,256} views %0 = aten.t.default(%0)
//     %3: f32[4,256] = aten.mul.Tensor(%9, wrapped(0.5)) by fold_scale
//   update
//     %4: f32[256,256] writes %0 = aten.add_.Tensor(%0, %7, 1)
//   return
//     loss = %3
//     weight = %4 -> layers.0.wq.weight
//
// The line `segment` begins a run of nodes that a device records once. `eager` ends it: the host
// calls the nodes up to the next `segment`.
//
// There is one statement a line, and `#` starts a comment.
//   block         a module that may be recomputed as a whole
//   bucket        parameters of one bucket are gathered together
//   axis          an axis of the mesh and its ranks
//   group         a group that collectives name, and its axes
//   on            the sharding of an input over the axes where it is not replicated
//                 (compiler/ir/sharding.h): `0`, `inner 1` with `of [sizes]` after all axes,
//                 `sum`, `max` or `local`
//   PHASE MODULE  the origin of the nodes that follow
//   by            the pass that created a node
//   -> INPUT      the input that an output updates
//
// A type is dtype[sizes], followed by {strides} unless they are row-major. Several results are
// separated by commas before the `=`. `host` before a type puts the value into host memory: `%5:
// host f32[8] = rondo.offload.default(%4)`.
//
// Arguments are `none`, `true`, `7`, `0.5` (a double always has a point, an exponent, inf or nan),
// `"text"`, a dtype, `.contiguous_format` (a Symbol), `wrapped(2.0)`, `%3`, and lists of one kind:
// `[1, 2]`, `[0.5]`, `[true]`, `[%1, none]`. Empty lists are `[]` (integers), `doubles[]`,
// `bools[]` and `values[]`. A nan with unusual bits is `nan(0xfff8000000000000)`. Names are bare if
// they consist of letters, digits and `_ . : /`, and quoted otherwise.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Prints a graph. Never fails, so that a broken graph can be dumped; only verified graphs are sure
// to parse back. print(parse(x)) == x for every printed x. Value numbers are the ids.
// `comments`, by value, follow the nodes on their lines.
std::string print(const Graph& graph, const IdMap<std::string>* comments = nullptr);
std::string print(const TensorType& type);
std::string print(const Graph& graph, const Node& node);  // one line, without phase and module
// Prints a placement: "0" for sharded along dim 0, "inner 1", "sum", "max", "local", "zero" or
// "replicated", followed by "repeated" where it is.
std::string print(const Placement& placement);

// Parses a graph. Throws Error(ExitCode::graph) "file_name:line:column: problem; expected ...".
// Checks the syntax, that values are defined once and before their use, and that sizes and strides
// stay within 2^60 bytes. The verifier checks the rest. Memory is linear in the length of any text.
Graph parse(std::string_view text, std::string_view file_name);

}  // namespace rondo::ir

// The text form of a graph: what dumps, goldens and `rondo opt` read and write.
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
// A line `segment` begins a run of nodes that is recorded as one, `eager` ends it: what follows, up to the
// next `segment`, is called by the host in between.
//
// One statement a line; `#` starts a comment. `block` names a module that may be recomputed as a whole;
// parameters of one `bucket` are gathered together. `axis` names an axis of the mesh and its ranks, `group`
// one that collectives name and its axes; `on` says how an input lies on the axes where it is not replicated
// (compiler/ir/sharding.h): `0`, `inner 1` with `of [sizes]` behind all, `sum`, `max`, `local`. A line `PHASE
// MODULE` says where the nodes below it come from; `by` names the pass that created a node; `-> INPUT` says
// which input an output updates. A type is dtype[sizes], followed by {strides} unless they are the row-major
// ones. Several results are separated by commas before the `=`.
//
// `host` before a type says that the value lies in the host's memory: `%5: host f32[8] =
// rondo.offload.default(%4)`.
//
// Arguments: `none`, `true`, `7`, `0.5` (a double always shows a point, an exponent, inf or nan), `"text"`,
// a dtype, `.contiguous_format` (a Symbol), `wrapped(2.0)`, `%3`, and lists of one kind: `[1, 2]`, `[0.5]`,
// `[true]`,
// `[%1, none]`; empty lists are `[]` (integers), `doubles[]`, `bools[]`, `values[]`. A nan with unusual bits
// is `nan(0xfff8000000000000)`. Names are bare if they consist of letters, digits and `_ . : /`, otherwise
// quoted.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// Never fails, so that a broken graph can be dumped too; only verified graphs are sure to parse back.
// print(parse(x)) == x for every x that print made. Value numbers are the ids.
// `comments`, by value, stand behind the lines of nodes.
std::string print(const Graph& graph, const IdMap<std::string>* comments = nullptr);
std::string print(const TensorType& type);
std::string print(const Graph& graph, const Node& node);  // one line, without phase and module
// "0" where it is sharded along dim 0, "inner 1", "sum", "max", "local", "zero", "replicated"; where it is
// repeated, that word behind it.
std::string print(const Placement& placement);

// Throws Error(ExitCode::graph) "file_name:line:column: what; expected ...". Checks that values are defined
// once and above their use, that sizes and strides stay within 2^60 bytes, and the syntax; the rest is
// verify's. Takes memory linear in the text, whatever the text says.
Graph parse(std::string_view text, std::string_view file_name);

}  // namespace rondo::ir

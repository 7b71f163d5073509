// All-gathers of matrices that are only read to quantize them to float8.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/def_use.h"
#include "compiler/ir/ir.h"

namespace rondo::ir {

// A node that quantizes the gathered matrix or its transpose.
struct Float8Reader {
  NodeIndex node = kNoNode;
  bool transposed = false;
  std::vector<std::int64_t> sizes = {};  // rows and columns of the matrix, not transposed
};

// The readers have equal scales: of the whole matrix, or of its rows or their blocks, which are
// whole on each rank.
struct Float8Gather {
  NodeIndex start = kNoNode, wait = kNoNode;
  std::int32_t parameter = -1;  // index of the input that is gathered, or -1 for activations
  std::int64_t ranks = 1;
  std::string group = {};
  ValueId part = kNoValue;  // of this rank
  std::vector<Float8Reader> readers = {};
  std::int64_t block[2] = {};  // rows and columns of a scale; 0: all
  DType dtype = DType::f8e4m3;
  bool power_of_two = false;

  bool has_one_scale() const { return block[0] == 0 && block[1] == 0; }
};

struct Float8Gathers {
  std::vector<Float8Gather> gathers = {};
  // Gathers that are quantized but cannot be quantized before: by reason, their number and the
  // module of the first.
  std::map<std::string_view, std::pair<int, std::string>> others = {};
};

// Returns the gathers in the order of their starts; those of parameters only `with_parameters`.
Float8Gathers float8_gathers(const Graph& graph, const DefUse& def_use, bool with_parameters);

}  // namespace rondo::ir

// Follows the views of a gathered value to its readers. Each of them must quantize it, with equal
// arguments. The transpose of a matrix with one scale has the same numbers, transposed. Scales of
// rows are those of a rank's own rows, which a shard of a parameter may not have whole.
#include "compiler/analysis/float8_gathers.h"

#include <algorithm>
#include <optional>

#include "compiler/analysis/parameters.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kOtherReaders = "it is also read in another precision",
                           kRowsAndColumns = "its rows and its columns have different scales",
                           kColumns = "its columns, which ranks divide, have scales",
                           kParts = "a rank does not have whole rows or blocks";

class Finder {
 public:
  Finder(const Graph& graph, const DefUse& def_use)
      : graph_(graph), def_use_(def_use), parameters_(parameters_of_nodes(graph)) {}

  Float8Gathers run(bool with_parameters) {
    const IdMap<NodeIndex> waits = waits_of_starts(graph_);
    for (NodeIndex i = 0; i < graph_.node_count(); ++i)
      if (is_collective(node(i), CollectiveKind::all_gather) && waits[i] != kNoNode &&
          (with_parameters || parameters_[i] < 0))
        add(i, waits[i]);
    return std::move(gathers_);
  }

 private:
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void add(NodeIndex start, NodeIndex wait) {
    const Collective collective = *collective_of(node(start));
    Float8Gather gather{.start = start,
                        .wait = wait,
                        .parameter = parameters_[start],
                        .ranks = collective.ranks,
                        .group = std::string(collective.group),
                        .part = operand(node(start), 0)};
    const TensorType& part = type(gather.part);
    if (!is_float(part.dtype) || dtype_bytes(part.dtype) == 1 || !is_contiguous(part)) return;
    const bool is_private = def_use_.only_reader(node(start).results[0]) == wait;
    const bool all_quantize = collect(node(wait).results[0], gather.readers) && is_private;
    if (gather.readers.empty()) return;
    const std::string_view why = all_quantize ? why_not(gather) : kOtherReaders;
    if (why.empty()) return gathers_.gathers.push_back(std::move(gather));
    auto& [count, first] = gathers_.others[why];
    if (count++ == 0) first = node(start).module;
  }

  // Collects the nodes that quantize a value or a view of it. Returns true if nothing else reads
  // it.
  bool collect(ValueId id, std::vector<Float8Reader>& readers) const {
    bool all = true;
    for (const NodeIndex i : def_use_.readers(id)) {
      const Node& reader = node(i);
      if (reader.op == "rondo.quantize_float8.default" && type(id).sizes.size() == 2) {
        Float8Reader found{.node = i, .transposed = !is_contiguous(type(id)), .sizes = type(id).sizes};
        if (found.transposed) std::swap(found.sizes[0], found.sizes[1]);
        readers.push_back(std::move(found));
      } else if (reader.op == "aten.view.default" || reader.op == "aten.t.default" || cuts_padding(reader)) {
        all = collect(reader.results[0], readers) && all;
      } else {
        all = false;
      }
    }
    return all;
  }
  // (self, dim, start, end, step)
  static bool cuts_padding(const Node& node) {
    return node.op == "aten.slice.Tensor" && integer(node, 1) == 0 && integer(node, 2) == 0 &&
           integer(node, 4) == 1;
  }

  // Sets how the readers quantize. Returns why they cannot do so before the gather, or "".
  std::string_view why_not(Float8Gather& gather) const {
    const Node& first = node(gather.readers.front().node);  // (x, rows, columns, dtype, power_of_two)
    gather.block[0] = integer(first, 1);
    gather.block[1] = integer(first, 2);
    gather.dtype = *argument<DType>(first, 3);
    gather.power_of_two = *argument<bool>(first, 4);
    bool equal = true, has_rows = false, has_columns = false;
    for (const Float8Reader& reader : gather.readers) {
      equal =
          equal && std::equal(first.args.begin() + 1, first.args.end(), node(reader.node).args.begin() + 1);
      (reader.transposed ? has_columns : has_rows) = true;
    }
    if (equal && gather.has_one_scale()) return "";
    if (!equal || (has_rows && has_columns)) return kRowsAndColumns;
    if (has_columns) return kColumns;
    return has_whole_blocks(gather) ? "" : kParts;
  }

  // A flat part of a matrix whose columns ranks divide has no type of sharding as rows.
  bool has_whole_blocks(const Float8Gather& gather) const {
    const std::vector<std::int64_t>& sizes = gather.readers.front().sizes;
    const std::int64_t elements = element_count(type(gather.part)),
                       block = sizes[1] * std::max<std::int64_t>(gather.block[0], 1);
    if (elements % block != 0 || elements * gather.ranks != sizes[0] * sizes[1]) return false;
    if (gather.parameter < 0) return type(gather.part).sizes.size() == 2;
    const std::vector<Placement>& axes = graph_.inputs[gather.parameter].sharding.axes;
    return std::none_of(axes.begin(), axes.end(),
                        [](const Placement& p) { return p.kind == Placement::Kind::inner; });
  }

  const Graph& graph_;
  const DefUse& def_use_;
  const IdMap<std::int32_t> parameters_;
  Float8Gathers gathers_;
};

}  // namespace

Float8Gathers float8_gathers(const Graph& graph, const DefUse& def_use, bool with_parameters) {
  return Finder(graph, def_use).run(with_parameters);
}

}  // namespace rondo::ir

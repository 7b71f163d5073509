// Quantizes matrices before the all-gather rather than behind it, so that ranks exchange float8
// numbers and their scales, and each rank quantizes its own part.
//
//   A scale of rows, which are whole on a rank:
//     %2: bf16[8,32] = all_gather(%1, 2, "tp")      %10, %11 = quantize_float8(%1, 1, 0, ...)
//     %3 views %2 = wait_tensor(%2)             ->  %12: f8e4m3[8,32] = all_gather(%10, 2, "tp")
//     %4, %5 = quantize_float8(%3, 1, 0, ...)       %14: f32[8,1] = all_gather(%11, 2, "tp")
//
//   A scale of the matrix:
//     %2: bf16[8,32] = all_gather(%1, 2, "tp")      %10: f32[1] = largest_magnitude(%1)
//     %3 views %2 = wait_tensor(%2)                 %11: f32[1] = all_reduce(%10, "max", "tp")
//     %4, %5 = quantize_float8(%3, 0, 0, ...)   ->  %13, %14 = quantize_float8_by(%1, %12, ...)
//     %6 views %3 = t(%3)                           %15: f8e4m3[8,32] = all_gather(%13, 2, "tp")
//     %7, %8 = quantize_float8(%6, 0, 0, ...)       %17: f8e4m3[32,8] = transpose_float8(%16)
//
// A maximum over ranks is exact, so the bits are those of the original. The maxima of all
// parameters of a group are reduced at once, at the beginning of the graph: they are the maxima of
// the shards, rounded as the shards are (rounding is monotonic).
//
// A gather is left alone if it is also read in another precision, and if a rank does not have whole
// rows, or whole blocks of 128 x 128. So is one whose rows and columns have different scales: two
// gathers of float8 have the bytes of one of bf16.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "compiler/analysis/float8_gathers.h"
#include "compiler/analysis/schedule.h"
#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kQuantize = "rondo.quantize_float8.default", kView = "aten.view.default",
                           kTranspose = "aten.t.default", kSlice = "aten.slice.Tensor";
const std::string kModule = "float8_scales";  // of the maxima of all parameters

// The largest magnitudes of parameters that one collective reduces.
struct Maxima {
  std::vector<std::int32_t> parameters = {};
  ValueId reduced = kNoValue;
};
using MaximaKey = std::tuple<std::string, DType>;  // group, dtype that the shards are cast to

// The dtype in which ops read the largest magnitude of a tensor.
constexpr DType dtype_of_largest(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

class QuantizeBeforeGather {
 public:
  QuantizeBeforeGather(Graph& graph, bool with_parameters)
      : graph_(graph),
        def_use_(graph),
        found_(float8_gathers(graph, def_use_, with_parameters)),
        places_(present_places(graph)),
        keep_(graph.nodes.size(), true) {}

  Notes run() {
    if (found_.gathers.empty()) return unchanged(notes());
    for (const Float8Gather& gather : found_.gathers)
      if (const auto source = shard(gather)) count(*source, gather.parameter);
    reduce_maxima();
    for (const Float8Gather& gather : found_.gathers)
      gather.has_one_scale() ? share_scale(gather) : scale_rows(gather);
    finish();
    return notes();
  }

 private:
  const Node& node(NodeIndex i) const { return graph_.nodes[i]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  Notes notes() const {
    Notes notes;
    if (!found_.gathers.empty())
      notes.push_back(fmt::format("quantized before {} gathers: {:.1f} instead of {:.1f} MiB are gathered",
                                  found_.gathers.size(), static_cast<double>(bytes_after_) / 0x1p20,
                                  static_cast<double>(bytes_before_) / 0x1p20));
    for (const auto& [why, others] : found_.others)
      notes.push_back(fmt::format("left {} gathers of quantized matrices unchanged: {} (the first in \"{}\")",
                                  others.first, why, others.second));
    return notes;
  }

  // --- the largest magnitudes of parameters ---

  // Returns the maxima that have the parameter's, if it is gathered as it is or cast.
  std::optional<MaximaKey> shard(const Float8Gather& gather) const {
    if (!gather.has_one_scale() || gather.parameter < 0) return std::nullopt;
    const NodeIndex maker = def_use_.maker(gather.part);
    const bool is_cast = maker != kNoNode && converts_on_device(node(maker));
    const ValueId source = is_cast ? operand(node(maker), 0) : gather.part;
    if (source != graph_.inputs[gather.parameter].value) return std::nullopt;
    return MaximaKey{gather.group, type(gather.part).dtype};
  }
  void count(const MaximaKey& key, std::int32_t parameter) {
    std::vector<std::int32_t>& parameters = maxima_[key].parameters;
    if (std::find(parameters.begin(), parameters.end(), parameter) == parameters.end())
      parameters.push_back(parameter);
  }

  // Adds nodes at one place.
  struct Writer {
    QuantizeBeforeGather& of;
    Place place;
    Phase phase;
    std::string module;

    std::vector<ValueId> make(std::string_view op, std::vector<Argument> args, std::vector<TensorType> types,
                              ValueId views = kNoValue) {
      std::vector<ValueId> results;
      for (TensorType& type : types)
        results.push_back(of.graph_.add_value({.type = std::move(type), .views = views}));
      of.new_nodes_.push_back(
          {std::string(op), std::move(args), results, phase, module, "quantize_before_gather"});
      of.new_places_.push_back(place);
      return results;
    }
    ValueId one(std::string_view op, std::vector<Argument> args, TensorType type, ValueId views = kNoValue) {
      return make(op, std::move(args), {std::move(type)}, views)[0];
    }
    ValueId view(ValueId id, const std::vector<std::int64_t>& sizes) {
      if (of.type(id).sizes == sizes) return id;
      return one(kView, {Use{id}, sizes}, contiguous(of.type(id).dtype, sizes), id);
    }
    ValueId slice(ValueId id, std::int64_t begin, std::int64_t end) {
      return one(kSlice, {Use{id}, std::int64_t{0}, begin, end, std::int64_t{1}},
                 contiguous(of.type(id).dtype, {end - begin}), id);
    }
    ValueId cast(ValueId id, DType dtype) {
      if (of.type(id).dtype == dtype) return id;
      return one(kToCopy, {Use{id}, dtype, None{}, None{}, None{}, false, None{}},
                 contiguous(dtype, of.type(id).sizes));
    }
    ValueId clone(ValueId id) {
      return one("aten.clone.default", {Use{id}, Symbol{"contiguous"}},
                 contiguous(of.type(id).dtype, of.type(id).sizes));
    }
    ValueId transposed(ValueId id) {
      TensorType type = of.type(id);
      std::swap(type.sizes[0], type.sizes[1]);
      std::swap(type.strides[0], type.strides[1]);
      return one(kTranspose, {Use{id}}, std::move(type), id);
    }
    ValueId wait(ValueId started) { return one(kWaitTensor, {Use{started}}, of.type(started), started); }
    ValueId largest(ValueId id) {
      return one("rondo.largest_magnitude.default", {Use{id}},
                 contiguous(dtype_of_largest(of.type(id).dtype), {1}));
    }
    ValueId all_reduce_max(ValueId id, std::string group) {
      return wait(one(kAllReduce, {Use{id}, std::string("max"), std::move(group)}, of.type(id)));
    }
    // Starts a gather of `id`.
    ValueId all_gather(ValueId id, const Float8Gather& gather) {
      TensorType type = of.type(id);
      type.sizes[0] *= gather.ranks;
      of.bytes_after_ += element_count(type) * dtype_bytes(type.dtype);
      return one(kAllGather, {Use{id}, gather.ranks, gather.group}, contiguous(type.dtype, type.sizes));
    }
  };

  void reduce_maxima() {
    for (auto& [key, maxima] : maxima_) {
      const auto& [group, dtype] = key;
      Writer shared{*this, {0, -1}, Phase::forward, kModule};
      UseList each;
      for (const std::int32_t parameter : maxima.parameters) {
        Writer own{*this, {0, -1}, Phase::forward, graph_.inputs[parameter].name};
        each.values.push_back(own.largest(graph_.inputs[parameter].value));
      }
      const DType of_each = type(each.values[0]).dtype;
      const std::int64_t number = std::ssize(each.values);
      ValueId all = each.values[0];
      if (number > 1)
        all =
            shared.one("aten.cat.default", {std::move(each), std::int64_t{0}}, contiguous(of_each, {number}));
      all = shared.cast(shared.cast(all, dtype), dtype_of_largest(dtype));
      maxima.reduced = shared.all_reduce_max(all, group);
    }
  }

  // Returns the largest magnitude of the gathered tensor, [1].
  ValueId largest(const Float8Gather& gather) {
    const auto key = shard(gather);
    if (!key) {
      Writer writer = at(gather.start);
      return writer.all_reduce_max(writer.largest(gather.part), gather.group);
    }
    const auto& [parameters, reduced] = maxima_.at(*key);
    if (parameters.size() == 1) return reduced;
    const std::int64_t place =
        std::find(parameters.begin(), parameters.end(), gather.parameter) - parameters.begin();
    return Writer{*this, {gather.start, 0}, node(gather.start).phase, kModule}.slice(reduced, place,
                                                                                     place + 1);
  }

  // --- the replacement ---

  Writer at(NodeIndex i) { return {*this, {i, 0}, node(i).phase, node(i).module}; }

  void replace(const Float8Reader& reader, ValueId values, ValueId scales) {
    replaced_.emplace_back(node(reader.node).results[0], values);
    replaced_.emplace_back(node(reader.node).results[1], scales);
    keep_[static_cast<std::size_t>(reader.node)] = false;
  }
  void drop(const Float8Gather& gather) {
    keep_[static_cast<std::size_t>(gather.start)] = keep_[static_cast<std::size_t>(gather.wait)] = false;
    const TensorType& gathered = type(node(gather.wait).results[0]);
    bytes_before_ += element_count(gathered) * dtype_bytes(gathered.dtype);
  }

  void share_scale(const Float8Gather& gather) {
    Writer start = at(gather.start), wait = at(gather.wait);
    const std::vector<ValueId> own =
        start.make("rondo.quantize_float8_by.default",
                   {Use{gather.part}, Use{largest(gather)}, gather.dtype, gather.power_of_two},
                   {contiguous(gather.dtype, type(gather.part).sizes), contiguous(DType::f32, {1, 1})});
    const ValueId gathered = wait.wait(start.all_gather(own[0], gather));
    for (const Float8Reader& reader : gather.readers) {
      Writer writer = at(reader.node);
      const std::int64_t elements = reader.sizes[0] * reader.sizes[1];
      ValueId values = gathered;
      if (elements != element_count(type(values))) values = writer.slice(values, 0, elements);
      values = writer.view(values, reader.sizes);
      if (reader.transposed)
        values = writer.one("rondo.transpose_float8.default", {Use{values}},
                            contiguous(gather.dtype, {reader.sizes[1], reader.sizes[0]}));
      replace(reader, values, own[1]);
    }
    drop(gather);
  }

  // Parameters are gathered flat, as bucketing expects.
  void scale_rows(const Float8Gather& gather) {
    Writer start = at(gather.start), wait = at(gather.wait);
    const std::vector<std::int64_t>& sizes = gather.readers.front().sizes;
    const bool flat = type(gather.part).sizes.size() == 1;
    const ValueId x = start.view(gather.part, {sizes[0] / gather.ranks, sizes[1]});
    const Node& first = node(gather.readers.front().node);
    std::vector<Argument> args = first.args;
    args[0] = Use{x};
    std::vector<TensorType> types = {type(first.results[0]), type(first.results[1])};
    for (TensorType& type : types) {
      const bool by_columns = type.strides[0] == 1;
      type = contiguous(type.dtype, {type.sizes[0] / gather.ranks, type.sizes[1]});
      if (by_columns) type.strides = {1, type.sizes[0]};
    }
    std::vector<ValueId> own = start.make(kQuantize, std::move(args), types);
    const bool by_columns = !is_contiguous(type(own[1]));
    if (by_columns) own[1] = start.clone(own[1]);
    for (ValueId& id : own) {
      const std::vector<std::int64_t> of_part = type(id).sizes;
      if (flat) id = start.view(id, {of_part[0] * of_part[1]});
      id = wait.wait(start.all_gather(id, gather));
      id = wait.view(id, {of_part[0] * gather.ranks, of_part[1]});
    }
    if (by_columns) own[1] = wait.transposed(wait.clone(wait.transposed(own[1])));
    for (const Float8Reader& reader : gather.readers) replace(reader, own[0], own[1]);
    drop(gather);
  }

  void finish() {
    IdMap<ValueId> replacement(graph_.values.size(), kNoValue);
    for (const auto& [old, by] : replaced_) replacement[old] = by;
    replace_uses(graph_, replacement);
    keep_add_and_reorder(graph_, keep_, places_, std::move(new_nodes_), new_places_);
  }

  Graph& graph_;
  DefUse def_use_;
  Float8Gathers found_;
  IdMap<Place> places_;
  std::vector<bool> keep_;
  std::map<MaximaKey, Maxima> maxima_;
  std::vector<Node> new_nodes_;
  std::vector<Place> new_places_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
  std::int64_t bytes_before_ = 0, bytes_after_ = 0;
};

}  // namespace

Notes quantize_before_gather(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  Notes notes = QuantizeBeforeGather(graph, options.float8_weight_gathers).run();
  if (!notes.unchanged) eliminate_dead_code(graph, options);  // views of what is not gathered any more
  return notes;
}

}  // namespace rondo::ir

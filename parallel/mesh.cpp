// A rank's coordinates are its number in mixed radix: each axis has a stride and a degree. The axes
// of the experts divide the same ranks again, with strides of their own, so every query is one loop
// over kRows. A group's name joins the names of its axes with more than one rank. Axes with the
// same ranks then get the same name, and no second group.
#include "parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "support/error.h"

namespace rondo {
namespace {

struct AxisRow {
  Axis axis;
  std::string_view name;
  std::string_view key;   // in [parallelism]
  std::string_view word;  // in the arithmetic of messages
};
constexpr std::array<AxisRow, kAxes> kRows = {{
    {Axis::pp, "pp", "pipeline_parallel_degree", "pipeline"},
    {Axis::dp_replicate, "dp_replicate", "data_parallel_replicate_degree", "replicate"},
    {Axis::dp_shard, "dp_shard", "data_parallel_shard_degree", "shard"},
    {Axis::cp, "cp", "context_parallel_degree", "context"},
    {Axis::tp, "tp", "tensor_parallel_degree", "tensor"},
    {Axis::efsdp, "efsdp", "", ""},
    {Axis::ep, "ep", "expert_parallel_degree", ""},
    {Axis::etp, "etp", "expert_tensor_parallel_degree", ""},
}};
constexpr std::span<const AxisRow> kDenseRows = std::span(kRows).first<kDenseAxes>();

constexpr std::size_t index(Axis axis) { return static_cast<std::size_t>(axis); }
constexpr std::int64_t kInferred = -1;

// Replaces a degree of -1 by the number of ranks over the product of the others.
void infer(std::int64_t world_size, Degrees& degrees) {
  const auto inferred = std::find(degrees.begin(), degrees.end(), kInferred);
  if (inferred == degrees.end()) return;
  const auto key = [&](auto it) { return kRows[static_cast<std::size_t>(it - degrees.begin())].key; };
  const auto second = std::find(inferred + 1, degrees.end(), kInferred);
  if (second != degrees.end())
    throw Error(ExitCode::config,
                fmt::format("parallelism.{} and parallelism.{} are both -1, but only one degree can take the "
                            "ranks that are left; set the other",
                            key(inferred), key(second)));
  std::int64_t others = 1;
  for (const std::int64_t degree : degrees) others *= degree == kInferred ? 1 : degree;
  if (world_size % others != 0)
    throw Error(ExitCode::config,
                fmt::format("parallelism.{} = -1 takes the ranks that are left, but {} ranks / {} (the "
                            "product of the other degrees) is no whole number",
                            key(inferred), world_size, others));
  *inferred = world_size / others;
}

[[noreturn]] void refuse(std::int64_t world_size, const Degrees& degrees, std::int64_t ranks) {
  std::string product;
  for (const AxisRow& row : kDenseRows)
    product += fmt::format("{}{} {}", product.empty() ? "" : " * ", row.word, degrees[index(row.axis)]);
  const std::int64_t others = ranks / degrees[index(Axis::dp_shard)];
  throw Error(ExitCode::config,
              fmt::format("parallelism: {} = {} ranks, but the run has {}; start {} ranks, or {}", product,
                          ranks, world_size, ranks,
                          world_size % others == 0
                              ? "set parallelism.data_parallel_shard_degree = -1 to take what is left"
                              : "choose degrees whose product is the number of ranks"));
}

}  // namespace

std::string_view axis_name(Axis axis) { return kRows[index(axis)].name; }
std::string_view degree_key(Axis axis) { return kRows[index(axis)].key; }

Mesh::Mesh(std::int64_t world_size, Degrees degrees, std::int64_t expert_degree,
           std::int64_t expert_tensor_degree)
    : world_size_(world_size) {
  for (const AxisRow& row : kDenseRows)
    if (const std::int64_t degree = degrees[index(row.axis)]; degree < 1 && degree != kInferred)
      throw Error(ExitCode::config,
                  fmt::format("parallelism.{} = {} must be at least 1, or -1 to take the ranks that are left",
                              row.key, degree));
  infer(world_size_, degrees);
  std::int64_t ranks = 1;
  for (std::size_t axis = kDenseAxes; axis-- > 0;) {
    degrees_[axis] = degrees[axis];
    strides_[axis] = ranks;
    ranks *= degrees[axis];
  }
  if (ranks != world_size_) refuse(world_size_, degrees, ranks);
  if (expert_tensor_degree != 1 && expert_tensor_degree != degree(Axis::tp))
    throw Error(ExitCode::config, fmt::format("parallelism.expert_tensor_parallel_degree = {} must be 1, or "
                                              "parallelism.tensor_parallel_degree = {}",
                                              expert_tensor_degree, degree(Axis::tp)));
  const bool cut = expert_tensor_degree > 1;
  const std::int64_t expert_ranks = degree(cut ? kCutShardAxes : kWholeShardAxes);
  if (expert_degree < 1 || expert_ranks % expert_degree != 0)
    throw Error(
        ExitCode::config,
        fmt::format(
            "parallelism.expert_parallel_degree = {} must divide the ranks of a replica: shard {} * "
            "context {}{} = {}",
            expert_degree, degree(Axis::dp_shard), degree(Axis::cp),
            cut ? " (tensor parallelism cuts each expert)" : fmt::format(" * tensor {}", degree(Axis::tp)),
            expert_ranks));
  std::int64_t stride = 1;
  const auto set = [&](Axis axis, std::int64_t degree) {
    degrees_[index(axis)] = degree;
    strides_[index(axis)] = stride;
    stride *= degree;
  };
  set(Axis::etp, expert_tensor_degree);
  set(Axis::ep, expert_degree);
  set(Axis::efsdp, expert_ranks / expert_degree);
}

std::int64_t Mesh::degree(Axes axes) const {
  std::int64_t degree = 1;
  for (const AxisRow& row : kRows)
    if (axes.has(row.axis)) degree *= degrees_[index(row.axis)];
  return degree;
}

std::int64_t Mesh::coordinate(std::int64_t rank, Axes axes) const {
  std::int64_t coordinate = 0;
  for (const AxisRow& row : kRows) {
    const std::size_t axis = index(row.axis);
    if (axes.has(row.axis)) coordinate = coordinate * degrees_[axis] + rank / strides_[axis] % degrees_[axis];
  }
  return coordinate;
}

std::vector<std::int64_t> Mesh::members(std::int64_t rank, Axes axes) const {
  std::vector<std::int64_t> ranks = {rank};
  // For each axis, the outermost first, replaces each rank by the ranks that differ from it on this
  // axis.
  for (const AxisRow& row : kRows) {
    if (!axes.has(row.axis)) continue;
    const std::int64_t stride = strides_[index(row.axis)], degree = degrees_[index(row.axis)];
    std::vector<std::int64_t> more;
    for (const std::int64_t r : ranks)
      for (std::int64_t k = 0; k < degree; ++k) more.push_back(r + (k - r / stride % degree) * stride);
    ranks = std::move(more);
  }
  return ranks;
}

AxisGroup Mesh::group(Axes axes) const {
  if (axes.has(Axis::efsdp) && degree(Axis::ep) == 1) {
    const bool cut = degree(Axis::etp) > 1 && !axes.has(Axis::etp);
    Axes dense = cut ? kCutShardAxes : kWholeShardAxes;
    if (axes.has(Axis::dp_replicate)) dense.add(Axis::dp_replicate);
    return group(dense);
  }
  AxisGroup group;
  group.ranks = degree(axes);
  const bool replicas = axes.has(Axis::dp_replicate), shards = axes.has(Axis::dp_shard);
  const std::int64_t data =
      (replicas ? degree(Axis::dp_replicate) : 1) * (shards ? degree(Axis::dp_shard) : 1);
  const bool all_data = data > 1 && data == degree(kDataAxes);
  const auto add = [&](std::string_view part) {
    group.name += (group.name.empty() ? "" : "_") + std::string(part);
  };
  for (const AxisRow& row : kRows) {
    if (row.axis == Axis::dp_replicate && all_data) add(kDataParallelGroup);
    if (!axes.has(row.axis) || degree(row.axis) == 1) continue;
    group.stride = strides_[index(row.axis)];
    if (!(all_data && kDataAxes.has(row.axis))) add(row.name);
  }
  return group;
}

std::string Mesh::text() const {
  std::string dense, experts;
  for (const AxisRow& row : kRows) {
    if (degree(row.axis) == 1) continue;
    std::string& text = index(row.axis) < kDenseAxes ? dense : experts;
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", row.name, degree(row.axis));
  }
  return degree(kExpertTokenAxes) == 1 ? dense : dense + ", experts " + experts;
}

}  // namespace rondo

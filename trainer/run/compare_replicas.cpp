// Compares two sets of tensors separately: shards among the ranks of dp_replicate, and whole
// tensors among the ranks of a stage. A rank is compared with the most frequent hash of the ranks
// that should agree. So with three replicas the odd one is named; with two, either may be wrong.
// Only after a difference do two ranks exchange a hash per tensor.
#include "trainer/run/compare_replicas.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace rondo {
namespace {

constexpr std::int64_t kSums = 64;

using Hashes = std::vector<std::uint64_t>;  // of each tensor

Hashes hashes_of(const std::vector<const StatePart*>& parts) {
  std::vector<at::Tensor> sums;
  for (const StatePart* part : parts) sums.push_back(bit_sums(part->tensor).cpu());
  if (sums.empty()) return {};
  const at::Tensor on_host = at::stack(sums);
  Hashes hashes;
  for (std::int64_t i = 0; i < on_host.size(0); ++i)
    hashes.push_back(XXH3_64bits(on_host.const_data_ptr<std::int64_t>() + i * kSums,
                                 static_cast<std::size_t>(kSums) * sizeof(std::int64_t)));
  return hashes;
}

// The form in which hashes are sent through the store.
std::string text_of(const Hashes& hashes) {
  return {reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof hashes[0]};
}
Hashes hashes_from(const std::string& text) {
  Hashes hashes(text.size() / sizeof(Hashes::value_type));
  std::memcpy(hashes.data(), text.data(), text.size());
  return hashes;
}

std::string describe(const OddRanks& ranks, const Hashes& usual, const Hashes& odd,
                     const std::vector<const StatePart*>& parts) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (usual[i] != odd[i]) differing.push_back(parts[i]->name);
  const std::size_t shown = std::min(ranks.odd.size(), kShown);
  return fmt::format(
      "rank{} {}{} {} other bits than rank {} of {}{}{}", shown > 1 ? "s" : "",
      fmt::join(ranks.odd.begin(), ranks.odd.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < ranks.odd.size() ? fmt::format(" and {} more", ranks.odd.size() - shown) : "",
      ranks.odd.size() > 1 ? "have" : "has", ranks.usual, differing.front(),
      differing.size() > 1 ? fmt::format(", the first of {} tensors that differ", differing.size()) : "",
      ranks.tie ? "; no hash has a majority, so either may be wrong" : "");
}

std::optional<std::string> find_drift_of(const std::vector<const StatePart*>& parts, const Mesh& mesh,
                                         Axes axes, ProcessGroups& groups) {
  if (mesh.degree(axes) == 1) return std::nullopt;
  const Hashes mine = hashes_of(parts);
  const auto hash = static_cast<std::int64_t>(XXH3_64bits(mine.data(), mine.size() * sizeof mine[0]));
  const auto ranks = first_odd_ranks(groups.all_gather(hash), mesh, axes);
  if (!ranks) return std::nullopt;
  // Only ranks of the same stage know the names of each other's tensors.
  const Hashes usual =
      hashes_from(groups.broadcast_text("replicas/usual", text_of(mine), static_cast<int>(ranks->usual)));
  const std::int64_t odd = ranks->odd.front();
  const std::string sentence =
      groups.broadcast_text("replicas/odd", groups.rank() == odd ? describe(*ranks, usual, mine, parts) : "",
                            static_cast<int>(odd));
  groups.barrier();  // rank 0, whose store has the texts, may leave after this
  return sentence;
}

}  // namespace

at::Tensor bit_sums(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.view({-1});
  const std::int64_t row = kSums * std::int64_t{sizeof(std::int64_t)} / flat.element_size();
  const std::int64_t whole = flat.numel() / row * row;
  at::Tensor last = at::zeros({row}, flat.options());
  last.narrow(0, 0, flat.numel() - whole).copy_(flat.narrow(0, whole, flat.numel() - whole));
  const at::Tensor rest = last.view(at::kLong);
  return whole == 0 ? rest : rest + flat.narrow(0, 0, whole).view(at::kLong).view({-1, kSums}).sum(0);
}

std::optional<OddRanks> first_odd_ranks(const std::vector<std::int64_t>& hashes, const Mesh& mesh,
                                        Axes axes) {
  const auto hash = [&](std::int64_t rank) { return hashes[static_cast<std::size_t>(rank)]; };
  for (std::int64_t first = 0; first < std::ssize(hashes); ++first) {
    if (mesh.coordinate(first, axes) != 0) continue;
    const std::vector<std::int64_t> ranks = mesh.members(first, axes);
    std::map<std::int64_t, std::int64_t> count;
    for (const std::int64_t rank : ranks) ++count[hash(rank)];
    if (count.size() == 1) continue;
    const auto rarer = [&](std::int64_t a, std::int64_t b) { return count[hash(a)] < count[hash(b)]; };
    OddRanks result{*std::max_element(ranks.begin(), ranks.end(), rarer), {}};
    for (const std::int64_t rank : ranks) {
      if (hash(rank) == hash(result.usual)) continue;
      result.odd.push_back(rank);
      result.tie = result.tie || !rarer(rank, result.usual);
    }
    return result;
  }
  return std::nullopt;
}

std::optional<std::string> find_drift(const std::vector<StatePart>& parts, const Mesh& mesh,
                                      ProcessGroups& groups) {
  std::vector<const StatePart*> shards, whole;
  for (const StatePart& part : parts) (part.whole ? whole : shards).push_back(&part);
  auto drift = find_drift_of(shards, mesh, Axis::dp_replicate, groups);
  return drift ? drift : find_drift_of(whole, mesh, kStageAxes, groups);
}

}  // namespace rondo

#include "parallel/mesh.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <map>
#include <numeric>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::array kEach = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};

// Every way to write `size` as a product of five degrees.
void for_each_mesh(std::int64_t size, const std::function<void(const Degrees&)>& call) {
  Degrees degrees{};
  const std::function<void(std::size_t, std::int64_t)> fill = [&](std::size_t axis, std::int64_t left) {
    if (axis + 1 == kDenseAxes) {
      degrees[axis] = left;
      call(degrees);
      return;
    }
    for (std::int64_t degree = 1; degree <= left; ++degree) {
      if (left % degree != 0) continue;
      degrees[axis] = degree;
      fill(axis + 1, left / degree);
    }
  };
  fill(0, size);
}

// Without the mesh's own arithmetic: ranks count through the grid, the last axis fastest.
std::vector<Degrees> grid(const Degrees& degrees) {
  std::vector<Degrees> places = {{}};
  for (std::size_t axis = 0; axis < kDenseAxes; ++axis) {
    std::vector<Degrees> more;
    for (const Degrees& place : places)
      for (std::int64_t k = 0; k < degrees[axis]; ++k) {
        more.push_back(place);
        more.back()[axis] = k;
      }
    places = std::move(more);
  }
  return places;
}

std::string refusal(std::int64_t world_size, const Degrees& degrees) {
  try {
    Mesh(world_size, degrees);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::config);
    return error.what();
  }
  return "";
}

TEST_CASE("on every mesh of up to 64 ranks the coordinates count through the grid, the last axis fastest") {
  std::int64_t wrong = 0, meshes = 0;
  for (std::int64_t size = 1; size <= 64; ++size)
    for_each_mesh(size, [&](const Degrees& degrees) {
      const Mesh mesh(size, degrees);
      const std::vector<Degrees> places = grid(degrees);
      ++meshes;
      for (std::int64_t rank = 0; rank < size; ++rank)
        for (std::size_t axis = 0; axis < kDenseAxes; ++axis)
          wrong += mesh.coordinate(rank, kEach[axis]) != places[static_cast<std::size_t>(rank)][axis];
    });
  CHECK(meshes > 1000);
  CHECK(wrong == 0);
}

TEST_CASE("on every mesh of up to 64 ranks the groups of every union of axes divide the ranks evenly") {
  std::int64_t wrong = 0;
  for (std::int64_t size = 1; size <= 64; ++size)
    for_each_mesh(size, [&](const Degrees& degrees) {
      const Mesh mesh(size, degrees);
      const std::vector<Degrees> places = grid(degrees);
      for (const Axes axes : {Axes(Axis::pp), Axes(Axis::dp_replicate), Axes(Axis::dp_shard), Axes(Axis::cp),
                              Axes(Axis::tp), kDataAxes, Axes{Axis::dp_shard, Axis::cp},
                              Axes{Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp}}) {
        for (std::int64_t rank = 0; rank < size; ++rank) {
          std::vector<std::int64_t> expected;  // those that agree with it on all other axes
          for (std::int64_t other = 0; other < size; ++other) {
            bool together = true;
            for (const Axis axis : kEach)
              together =
                  together && (axes.has(axis) ||
                               places[static_cast<std::size_t>(rank)][static_cast<std::size_t>(axis)] ==
                                   places[static_cast<std::size_t>(other)][static_cast<std::size_t>(axis)]);
            if (together) expected.push_back(other);
          }
          const std::vector<std::int64_t> members = mesh.members(rank, axes);
          wrong += members != expected;
          wrong += std::ssize(members) != mesh.degree(axes);
          wrong += members[static_cast<std::size_t>(mesh.coordinate(rank, axes))] != rank;
        }
      }
    });
  CHECK(wrong == 0);
}

TEST_CASE("the degree that is -1 is what the others leave, on every mesh of up to 64 ranks") {
  std::int64_t wrong = 0;
  for (std::int64_t size = 1; size <= 64; ++size)
    for_each_mesh(size, [&](const Degrees& degrees) {
      for (std::size_t axis = 0; axis < kDenseAxes; ++axis) {
        Degrees asked = degrees;
        asked[axis] = -1;
        const Mesh mesh(size, asked);
        for (std::size_t k = 0; k < kDenseAxes; ++k) wrong += mesh.degree(kEach[k]) != degrees[k];
      }
    });
  CHECK(wrong == 0);
}

TEST_CASE("shards of a replica are neighbours, replicas of a shard are not") {
  const Mesh mesh(8, {1, 2, 4, 1, 1});
  CHECK(mesh.members(5, Axis::dp_shard) == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(mesh.members(5, Axis::dp_replicate) == std::vector<std::int64_t>{1, 5});
  CHECK(mesh.coordinate(5, Axis::dp_shard) == 1);
  CHECK(mesh.coordinate(5, Axis::dp_replicate) == 1);
  CHECK(mesh.coordinate(5, kDataAxes) == 5);
  CHECK(mesh.group(Axis::dp_replicate).stride == 4);
  CHECK(mesh.group(Axis::dp_shard).stride == 1);
}

TEST_CASE("a group is named by its axes, and where one data axis has one rank, the other one's is dp") {
  const auto name = [](const Degrees& degrees, Axes axes) {
    return Mesh(degrees[0] * degrees[1] * degrees[2] * degrees[3] * degrees[4], degrees).group(axes).name;
  };
  CHECK(name({1, 2, 2, 1, 1}, Axis::dp_shard) == "dp_shard");
  CHECK(name({1, 2, 2, 1, 1}, Axis::dp_replicate) == "dp_replicate");
  CHECK(name({1, 2, 2, 1, 1}, kDataAxes) == "dp");
  CHECK(name({1, 1, 4, 1, 1}, Axis::dp_shard) == "dp");
  CHECK(name({1, 4, 1, 1, 1}, Axis::dp_replicate) == "dp");
  CHECK(name({1, 1, 4, 1, 2}, Axis::dp_shard) == "dp");
  CHECK(name({1, 1, 4, 1, 2}, kAllAxes) == "dp_tp");
  CHECK(name({1, 1, 4, 1, 2}, kWholeShardAxes) == "dp_tp");
  CHECK(name({1, 2, 2, 1, 2}, kWholeShardAxes) == "dp_shard_tp");
  CHECK(name({1, 2, 1, 1, 2}, kWholeShardAxes) == "tp");
  CHECK(name({1, 1, 1, 1, 2}, kAllAxes) == "tp");
  CHECK(name({2, 2, 2, 2, 2}, {Axis::dp_shard, Axis::cp}) == "dp_shard_cp");
  CHECK(name({2, 2, 2, 2, 2}, {Axis::dp_replicate, Axis::dp_shard, Axis::cp}) == "dp_cp");
  CHECK(name({2, 2, 2, 2, 2}, Axis::pp) == "pp");
  CHECK(name({2, 2, 2, 2, 2}, Axis::tp) == "tp");
  CHECK(name({2, 1, 2, 1, 1}, kAllAxes) == "pp_dp");
  CHECK(name({2, 1, 2, 1, 1}, kStageAxes) == "dp");
  CHECK(name({2, 1, 1, 1, 1}, kAllAxes) == "pp");
  CHECK(Mesh(4, {1, 1, 4, 1, 1}).group(Axis::dp_replicate).ranks == 1);
}

TEST_CASE(
    "the ranks of a pipeline's stage are a block of neighbours, and divide it like a run of their own") {
  const Mesh mesh(16, {2, 2, 2, 1, 2}, 2), stage(8, {1, 2, 2, 1, 2}, 2);
  CHECK(mesh.members(3, Axis::pp) == std::vector<std::int64_t>{3, 11});
  CHECK(mesh.members(13, kStageAxes) == std::vector<std::int64_t>{8, 9, 10, 11, 12, 13, 14, 15});
  for (const Axes axes : kGroups)
    for (std::int64_t rank = 0; rank < 8; ++rank) {
      if (axes.has(Axis::pp)) continue;
      CHECK(mesh.coordinate(rank + 8, axes) == stage.coordinate(rank, axes));
      CHECK(mesh.members(rank, axes) == stage.members(rank, axes));
      CHECK(mesh.group(axes).name == stage.group(axes).name);
    }
}

TEST_CASE("experts divide the ranks of each replica in their own way") {
  const Mesh mesh(16, {1, 2, 4, 1, 2}, 4);
  CHECK(mesh.degree(Axis::ep) == 4);
  CHECK(mesh.degree(Axis::efsdp) == 2);
  CHECK(mesh.members(5, Axis::ep) == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(mesh.members(5, Axis::efsdp) == std::vector<std::int64_t>{1, 5});
  CHECK(mesh.members(13, Axis::ep) == std::vector<std::int64_t>{12, 13, 14, 15});
  CHECK(mesh.members(13, Axis::efsdp) == std::vector<std::int64_t>{9, 13});
  CHECK(mesh.coordinate(13, Axis::ep) == 1);
  CHECK(mesh.coordinate(13, Axis::efsdp) == 1);
  CHECK(mesh.group(Axis::ep).name == "ep");
  CHECK(mesh.group(Axis::efsdp).name == "efsdp");
  CHECK(mesh.group(Axis::efsdp).stride == 4);
}

TEST_CASE("experts that all ranks have are sharded as other whole parameters are") {
  const Mesh mesh(8, {1, 1, 4, 1, 2});
  CHECK(mesh.group(Axis::efsdp).name == mesh.group(kWholeShardAxes).name);
  CHECK(mesh.degree(Axis::efsdp) == 8);
  CHECK(mesh.members(5, Axis::efsdp) == mesh.members(5, kWholeShardAxes));
}

TEST_CASE("experts that tensor parallelism cuts divide the other ranks of a replica") {
  const Mesh mesh(16, {1, 2, 4, 1, 2}, 2, 2);
  CHECK(mesh.degree(Axis::efsdp) == 2);
  CHECK(mesh.members(13, Axis::etp) == mesh.members(13, Axis::tp));
  CHECK(mesh.members(13, Axis::ep) == std::vector<std::int64_t>{13, 15});
  CHECK(mesh.members(13, Axis::efsdp) == std::vector<std::int64_t>{9, 13});
  CHECK(mesh.members(13, kExpertTokenAxes) == std::vector<std::int64_t>{12, 13, 14, 15});
  CHECK(mesh.coordinate(14, kExpertTokenAxes) == 2);
  CHECK(mesh.group(kExpertTokenAxes).name == "ep_etp");
  CHECK(mesh.group(kExpertTokenAxes).stride == 1);
  CHECK(mesh.group(Axis::ep).stride == 2);
  CHECK(mesh.group(kWholeExpertShardAxes).name == "efsdp_etp");
  CHECK(mesh.members(13, kWholeExpertShardAxes) == std::vector<std::int64_t>{8, 9, 12, 13});
  CHECK(mesh.coordinate(12, kWholeExpertShardAxes) == 2);
  CHECK(mesh.text() == "dp_replicate 2 x dp_shard 4 x tp 2, experts efsdp 2 x ep 2 x etp 2");
  const Mesh whole(8, {1, 1, 4, 1, 2}, 1, 2);
  CHECK(whole.group(Axis::efsdp).name == whole.group(kCutShardAxes).name);
  CHECK(whole.members(5, Axis::efsdp) == whole.members(5, kCutShardAxes));
  CHECK(whole.group(kWholeExpertShardAxes).name == whole.group(kWholeShardAxes).name);
  CHECK(whole.members(5, kWholeExpertShardAxes) == whole.members(5, kWholeShardAxes));
}

TEST_CASE("an expert is cut by all of tensor parallelism or not at all") {
  const auto message = [](std::int64_t experts, std::int64_t cut) -> std::string {
    try {
      Mesh(8, {1, 1, 2, 1, 4}, experts, cut);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message(2, 4).empty());
  CHECK(message(2, 2) ==
        "parallelism.expert_tensor_parallel_degree = 2 must be 1, or parallelism.tensor_parallel_degree = 4");
  CHECK(message(8, 4) ==
        "parallelism.expert_parallel_degree = 8 must divide the ranks of a replica: shard 2 * context 1 "
        "(tensor parallelism cuts each expert) = 2");
}

TEST_CASE("ranks of a replica that the experts cannot divide are refused with the arithmetic") {
  try {
    Mesh(8, {1, 2, 2, 1, 2}, 3);
    FAIL("an expert degree of 3 divides no 4 ranks");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::config);
    CHECK(std::string(error.what()) ==
          "parallelism.expert_parallel_degree = 3 must divide the ranks of a replica: shard 2 * context 1 * "
          "tensor 2 = 4");
  }
}

TEST_CASE("degrees that do not make the ranks are refused with the arithmetic") {
  CHECK(refusal(4, {1, 2, 2, 1, 1}).empty());
  CHECK(
      refusal(8, {1, 2, 2, 1, 1}) ==
      "parallelism: pipeline 1 * replicate 2 * shard 2 * context 1 * tensor 1 = 4 ranks, but the run has 8; "
      "start 4 ranks, or set parallelism.data_parallel_shard_degree = -1 to take what is left");
  CHECK(
      refusal(8, {1, 3, 2, 1, 1}) ==
      "parallelism: pipeline 1 * replicate 3 * shard 2 * context 1 * tensor 1 = 6 ranks, but the run has 8; "
      "start 6 ranks, or choose degrees whose product is the number of ranks");
  CHECK(refusal(8, {1, 3, -1, 1, 1}) ==
        "parallelism.data_parallel_shard_degree = -1 takes the ranks that are left, but 8 ranks / 3 (the "
        "product "
        "of the other degrees) is no whole number");
  CHECK(
      refusal(8, {1, -1, 16, 1, 1}) ==
      "parallelism.data_parallel_replicate_degree = -1 takes the ranks that are left, but 8 ranks / 16 (the "
      "product of the other degrees) is no whole number");
  CHECK(refusal(8, {1, -1, -1, 1, 1}) ==
        "parallelism.data_parallel_replicate_degree and parallelism.data_parallel_shard_degree are both -1, "
        "but "
        "only one degree can take the ranks that are left; set the other");
  CHECK(
      refusal(8, {1, 1, 0, 1, 1}) ==
      "parallelism.data_parallel_shard_degree = 0 must be at least 1, or -1 to take the ranks that are left");
}

}  // namespace
}  // namespace rondo

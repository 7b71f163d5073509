#include "compiler/ir/def_use.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "compiler/text/text.h"

using namespace rondo::ir;

TEST_CASE("def-use has the maker of a value and its readers in the order of the nodes") {
  Graph graph = parse(
      "graph g\nbatch %0: f32[8] x\nforward\n"
      "  %1: f32[8] = aten.neg.default(%0)\n"
      "  %2: f32[8] = aten.mul.Tensor(%1, %1)\n"
      "  %3: f32[8], %4: f32[8] = aten.split.Tensor(%2, 8, 0)\n"
      "return\n  y = %1\n",
      "x.ir");
  const DefUse def_use(graph);
  const auto readers = [&](ValueId id) {
    return std::vector<NodeIndex>(def_use.readers(id).begin(), def_use.readers(id).end());
  };
  CHECK(def_use.maker(0) == kNoNode);
  CHECK(def_use.maker(2) == 1);
  CHECK(def_use.maker(3) == 2);
  CHECK(def_use.maker(4) == 2);
  CHECK(readers(0) == std::vector<NodeIndex>{0});
  CHECK(readers(1) == std::vector<NodeIndex>{1, 1, 3});
  CHECK(readers(4).empty());
  CHECK(def_use.only_reader(0) == 0);
  CHECK(def_use.only_reader(1) == kNoNode);
  CHECK(def_use.only_reader(4) == kNoNode);
  CHECK(def_use.last_reader(1) == 3);
  CHECK(def_use.last_reader(4) == kNoNode);

  const ValueId added = graph.add_value({});
  for (const ValueId unknown : {added, kNoValue}) {
    CHECK(def_use.maker(unknown) == kNoNode);
    CHECK(def_use.readers(unknown).empty());
  }
}

TEST_CASE("an id map takes indices of any integral type") {
  IdMap<bool> read(3, false);
  const ValueId id = 2;
  read[id] = true;
  CHECK((read == std::vector<bool>{false, false, true}));
  const IdMap<int> counts = std::vector<int>{7, 8};
  CHECK(counts[std::size_t{1}] == 8);
}

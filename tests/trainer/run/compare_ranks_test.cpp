#include "trainer/run/compare_ranks.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "config/derived/layout.h"
#include "config/load.h"

namespace rondo {
namespace {

TEST_CASE("ranks compare all settings except [job] and paths") {
  const std::vector<std::string> flags = {"--optimizer.lr=0.5", "--job.description=here",
                                          "--training.dataset_path=/data/here"};
  const std::vector<std::string> settings = settings_to_compare(load_config(flags), {"data = 7"});
  const auto has = [&](const std::string& line) {
    return std::find(settings.begin(), settings.end(), line) != settings.end();
  };
  CHECK(has("optimizer.lr = 0.5"));
  CHECK(has("debug.seed = 42"));
  CHECK(has("data = 7"));
  for (const std::string& setting : settings) {
    CHECK_FALSE(setting.starts_with("job."));
    CHECK_FALSE(setting.starts_with("training.dataset_path"));
  }
}

TEST_CASE("differing settings are named with both values, at most five") {
  CHECK(describe_settings("a.x = 1\na.y = 2\nb.z = 3", "a.x = 1\na.y = 4\nc.w = \"t\"", 7) ==
        "ranks were started with different settings: a.y is 2 on rank 0 and 4 on rank 7; b.z is 3 on rank 0 "
        "and not set on rank 7; c.w is not set on rank 0 and \"t\" on rank 7. Start all ranks with the same "
        "configuration, data and program");
  const std::string many = describe_settings("a = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf = 1\ng = 1", "", 1);
  CHECK(many.find("e is 1 on rank 0 and not set on rank 1; and 2 more.") != std::string::npos);
}

TEST_CASE("the first differing collective is named, also if one rank has no further collective") {
  CHECK(describe_collectives("train_step:\ngather 1\nreduce 2\nvalidate:\n",
                             "train_step:\ngather 1\nreduce 3\nvalidate:\n", 0, 4) ==
        "ranks 0 and 4 would call different collectives in train_step; the first that differs: \"reduce 2\" "
        "and \"reduce 3\"");
  CHECK(
      describe_collectives("train_step:\nvalidate:\ngather 1\n", "train_step:\nvalidate:\n", 8, 9) ==
      "ranks 8 and 9 would call different collectives in validate; the first that differs: \"gather 1\" and "
      "\"\"");
  CHECK(describe_collectives("train_step:\nvalidate:\ngather 1\n",
                             "train_step:\nsum 2\nvalidate:\ngather 1\n", 0, 1) ==
        "ranks 0 and 1 would call different collectives in train_step; the first that differs: \"\" and "
        "\"sum 2\"");
}

TEST_CASE("ranks are compared with the first rank of their block of neighbours") {
  CHECK_FALSE(first_mismatch({7, 7, 7, 7}, 0));
  CHECK_FALSE(first_mismatch({7, 7, 8, 8}, 2));
  CHECK_FALSE(first_mismatch({7, 8, 9}, 1));
  CHECK(first_mismatch({7, 7, 8, 8}, 0)->rank == 2);
  const auto odd = first_mismatch({7, 7, 8, 9}, 2);
  REQUIRE(odd);
  CHECK(odd->first == 2);
  CHECK(odd->rank == 3);
}

TEST_CASE("tensor parallelism across nodes is warned of, and within nodes is not") {
  const JobConfig config = load_config({"--parallelism.tensor_parallel_degree=2"});
  const Mesh mesh = resolve_layout(config, 4).mesh;
  CHECK(tensor_parallelism_across_nodes({5, 5, 6, 6}, mesh).empty());
  const std::string warning = tensor_parallelism_across_nodes({5, 6, 5, 6}, mesh);  // cyclic tasks
  CHECK(warning.find("ranks 0 and 1 of one group are on different nodes") != std::string::npos);
}

TEST_CASE("ranks have a node in common by its number and its host") {
  RankEnvironment a, b;
  a.source = b.source = "slurm";
  b.rank = 1;
  CHECK(node_of(a) == node_of(b));
  b.group_rank = 1;
  CHECK(node_of(a) != node_of(b));
  a.source = b.source = "openmpi";  // its group_rank is a guess
  CHECK(node_of(a) == node_of(b));
}

}  // namespace
}  // namespace rondo

// The time limit of a run, and its folders.
#include <catch2/catch_test_macros.hpp>

#include "tests/config/config_texts.h"

using rondo::message_of;

TEST_CASE("a time limit within its margin is refused") {
  const std::string rule =
      "must be above job.time_margin_seconds = 120, since the run saves and ends that long before its limit; "
      "lower the margin, or raise the limit";
  CHECK(message_of("[job]\ntime_limit_seconds = 60\n", {}) ==
        "x.toml:2:1: job.time_limit_seconds = 60: " + rule);
  CHECK_NOTHROW(rondo::load_text("[job]\ntime_limit_seconds = 60\ntime_margin_seconds = 20\n"));
}

TEST_CASE("folders of a run that leave it, and a root folder as a run's, are refused") {
  CHECK(message_of("[metrics]\nsave_tb_folder = \"../tb\"\n") ==
        "x.toml:2:1: metrics.save_tb_folder = \"../tb\": must be a folder below job.dump_folder");
  CHECK(message_of("[checkpoint]\nfolder = \"./.\"\nenable = true\n") ==
        "x.toml:2:1: checkpoint.folder = \"./.\": must be a folder below job.dump_folder, not the folder "
        "itself");
  CHECK(message_of("[job]\ndump_folder = \"//..\"\n") ==
        "x.toml:2:1: job.dump_folder = \"//..\": must be a folder of the run, not the root folder");
  CHECK_NOTHROW(rondo::load_text("[job]\ndump_folder = \"/tmp\"\n"));
}

#include "trainer/resume/checkpoint_choice.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "support/error.h"
#include "tests/datasets/temp_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a rank accepts a checkpoint from rank 0 only in its own folder of checkpoints") {
  const TempFolder folder;
  const fs::path root = folder.path("run/checkpoint");
  fs::create_directories(root);
  fs::create_directories(folder.path("evil"));
  fs::create_directory_symlink(folder.path("run"), folder.path("link"));
  for (const std::string& good :
       {folder.path("run/checkpoint/step-5"), folder.path("run/checkpoint/step-5.tmp-run-1"),
        folder.path("link/checkpoint/step-5"), folder.path("run/./checkpoint/step-5")})
    CHECK(received_folder(good, root, 1) == good);
  for (const std::string& bad :
       {folder.path("evil/step-5"), folder.path("run/checkpoint/../step-5"),
        folder.path("run/checkpoint/step-5/.."), folder.path("run/checkpoint"),
        folder.path("run/checkpoint/x"), std::string("/step-5"), std::string("step-5"), std::string()}) {
    INFO(bad);
    try {
      received_folder(bad, root, 1);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::config);
      CHECK(std::string(error.what()).find(root.string()) != std::string::npos);
      CHECK(std::string(error.what()).find("\"" + bad + "\"") != std::string::npos);
    }
  }
}

TEST_CASE("checkpoints that some rank could not read are not to be moved away, but to be mounted") {
  const TempFolder folder;
  const fs::path root = folder.path("run/checkpoint"), step = root / "step-5";
  fs::create_directories(step);
  std::ofstream(step / "COMMITTED") << "of another manifest";
  const auto reason = [&](const std::vector<fs::path>& unreadable) -> std::string {
    try {
      return choose_checkpoint(JobConfig(), root, unreadable, checkpoint::Depth::quick, /*warns=*/false);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::checkpoint);
      return error.what();
    }
  };
  CHECK(reason({}).find("Move the folder away to start again") != std::string::npos);
  CHECK(
      reason({step}).find("can be read by all ranks: the warnings above name the ranks and hosts. Check that "
                          "each host mounts the same folder") != std::string::npos);
}

}  // namespace
}  // namespace rondo

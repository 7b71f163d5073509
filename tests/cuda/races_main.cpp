// Runs the cases of kernels_test with a random order of threads and a search for races
// (host/races.cpp). Then deletes each barrier in turn: a case that comes to it must fail. If
// arguments choose some cases, only the barriers of these are deleted.
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cuda/host/host_threads.h"

namespace {

using rondo::host::Barrier;

// The cases that came to each barrier.
std::map<Barrier, std::vector<std::string>> cases_of;

class BarriersOfCases final : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override { before_ = rondo::host::barriers_passed(); }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    for (const auto& [barrier, count] : rondo::host::barriers_passed())
      if (count > before_[barrier]) cases_of[barrier].push_back(stats.testInfo->name);
  }

 private:
  std::map<Barrier, std::int64_t> before_;
};
CATCH_REGISTER_LISTENER(BarriersOfCases)

// Returns the barriers that the sources of kernels contain, which is each line with a call.
std::set<Barrier> barriers_in_sources() {
  std::set<Barrier> barriers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RONDO_SOURCE_DIR "/ops")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".cu") && !path.ends_with(".cuh")) continue;
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number)
      if (line.find("__syncthreads()") != std::string::npos || line.find("__syncwarp()") != std::string::npos)
        barriers.insert(path.substr(path.rfind("ops/")) + ":" + std::to_string(number));
  }
  return barriers;
}

// Returns whether one of the cases fails.
bool is_found(Catch::Session& session, const std::vector<std::string>& cases) {
  for (const std::string& name : cases) {
    Catch::ConfigData config;
    config.testsOrTags = {"\"" + name + "\""};
    config.abortAfter = 1;
    config.defaultOutputFilename = "/dev/null";
    session.useConfigData(config);
    if (session.run() != 0) return true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  rondo::host::set_random_schedule(7);
  Catch::Session session;
  const int failed = session.run(count, arguments);
  if (failed != 0) return failed;
  int problems = 0, deleted = 0;
  const auto cases = cases_of;
  const std::set<Barrier> barriers = barriers_in_sources();
  for (const Barrier& barrier : barriers) {
    const auto found = cases.find(barrier);
    if (found == cases.end()) {
      if (count > 1) continue;
      std::printf("no case comes to the barrier %s; add one to tests/cuda/*_kernels_test.cpp\n",
                  barrier.c_str());
      ++problems;
      continue;
    }
    ++deleted;
    rondo::host::delete_barrier(barrier);
    if (!is_found(session, found->second)) {
      std::printf("%s: nothing fails without this barrier; delete it, or add a case\n", barrier.c_str());
      ++problems;
    }
    rondo::host::delete_barrier("");
  }
  std::printf("%d barriers deleted, one at a time: %d problems\n", deleted, problems);
  return problems == 0 ? 0 : 1;
}

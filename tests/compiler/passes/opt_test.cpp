// Runs `rondo opt` as a process.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/text/text.h"
#include "tests/compiler/passes/random_graph.h"

using namespace rondo;

namespace {

struct Outcome {
  int exit_code;
  std::string text;
};

Outcome run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  return {WEXITSTATUS(pclose(pipe)), text};
}

const std::string kOpt = RONDO_BINARY_DIR "/rondo opt ";

std::filesystem::path write_file(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / name;
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("rondo opt runs passes on a file or a pipe and prints a graph that parses back") {
  const auto path = write_file("rondo_opt_test_good.ir", ir::print(ir::random_graph(3, 60)));
  const Outcome from_file = run(kOpt + "--quiet " + path.string());
  CHECK(from_file.exit_code == 0);
  CHECK(ir::print(ir::parse(from_file.text, "out")) == from_file.text);
  CHECK(run("cat " + path.string() + " | " + kOpt + "--quiet -").text == from_file.text);
  CHECK(run(kOpt + "--verify-only " + path.string()).text.empty());
  const Outcome one = run(kOpt + "--passes eliminate_dead_code --print-after-all " + path.string());
  CHECK(one.text.find("# after eliminate_dead_code\ngraph random") == 0);
  CHECK(one.text.find("eliminate_dead_code ") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("rondo opt lists the passes") {
  const Outcome list = run(kOpt + "--list");
  CHECK(list.exit_code == 0);
  CHECK(list.text.find("reinplace                exact   default") != std::string::npos);
  CHECK(list.text.find("cudagraph                exact   optional  marks") != std::string::npos);
  CHECK(list.text.find("(needs device cuda)\n") != std::string::npos);
}

TEST_CASE("rondo opt marks segments for a device that records") {
  const auto path = write_file("rondo_opt_test_segments.ir",
                               "graph g\nbatch %0: f32[8] x\nforward\n"
                               "  %1: f32[8] = aten.neg.default(%0)\nreturn\n  y = %1\n");
  const Outcome marked = run(kOpt + "--quiet --device cuda --passes cudagraph " + path.string());
  CHECK(marked.exit_code == 0);
  CHECK(marked.text.find("\nsegment\nforward\n") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("rondo opt prints a graph's memory report and draws its timeline") {
  const auto path = write_file("rondo_opt_test_memory.ir", ir::print(ir::random_graph(3, 60)));
  const auto page = std::filesystem::temp_directory_path() / "rondo_opt_test_memory.html";
  const Outcome lines =
      run(kOpt + "--quiet --passes canonicalize --memory --timeline " + page.string() + " " + path.string());
  CHECK(lines.exit_code == 0);
  CHECK(lines.text.find("memory of random: ") == 0);
  CHECK(lines.text.find("\n  fragmentation ") != std::string::npos);
  std::string text;
  std::getline(std::ifstream(page), text, '\0');
  CHECK(text.find("<!doctype html>") == 0);
  CHECK(text.find("<title>random ") != std::string::npos);
  const Outcome refused =
      run(kOpt + "--quiet --passes canonicalize --timeline /nowhere/page.html " + path.string());
  CHECK(refused.exit_code == 6);
  CHECK(refused.text.find("/nowhere/page.html") != std::string::npos);
  for (const auto& file : {path, page}) std::filesystem::remove(file);
}

TEST_CASE("rondo opt reports errors and exits with their code") {
  const auto expect = [](const std::string& arguments, int code, const std::string& text) {
    const Outcome outcome = run(kOpt + arguments);
    INFO(outcome.text);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.text.find(text) != std::string::npos);
  };
  const auto path = write_file("rondo_opt_test_bad.ir", "graph g\nbatch %0: f32[8] x\nreturn\n  y = %1\n");
  expect(path.string(), 10, "rondo_opt_test_bad.ir:4:7: %1 is not defined before");
  expect("/nowhere.ir", 2, "opt: cannot read /nowhere.ir: No such file or directory; give the path");
  const auto empty = write_file("rondo_opt_test_empty.ir", "");
  expect(empty.string(), 10, "rondo_opt_test_empty.ir:1:1: ");
  expect("", 2, "opt: FILE is missing");
  expect("--frobnicate x", 2, "`rondo opt --help` lists the flags");
  const auto unverified = write_file("rondo_opt_test_unverified.ir", "graph g\nbatch %0: f32[8] x\n");
  expect(unverified.string(), 10, "breaks rule return_is_last after parse");
  const auto good = write_file("rondo_opt_test_good2.ir", "graph g\nbatch %0: f32[8] x\nreturn\n  y = %0\n");
  expect("--passes reinplac " + good.string(), 3, "unknown pass \"reinplac\" (did you mean reinplace?)");
  expect("--passes cudagraph " + good.string(), 3, "cudagraph needs device cuda");
  for (const auto& file : {path, empty, unverified, good}) std::filesystem::remove(file);
}

// The plan of the house, checked: who includes whom, what knows LibTorch, how long files are, what
// the executables link. Reads the sources, the build files and the ELF headers.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "apps/rondo/run_program.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const fs::path kRoot = RONDO_SOURCE_DIR;
const Names kFolders = {"support",    "ops",    "launch", "parallel", "datasets", "models", "compiler",
                        "checkpoint", "config", "runs",   "trainer",  "plan",     "prove",  "apps"};

bool starts_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }
bool is_header(const std::string& file) { return fs::path(file).extension() == ".h"; }

// Paths from the root of all C++ and CUDA files below `folders`.
Names sources_in(const Names& folders) {
  const std::set<std::string> kinds = {".h", ".cpp", ".cu", ".cuh"};
  Names found;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      if (kinds.contains(entry.path().extension())) found.push_back(fs::relative(entry.path(), kRoot));
  std::sort(found.begin(), found.end());
  return found;
}

// What stands between the quotes or brackets of its #include lines.
Names includes_of(const std::string& file) {
  static const std::regex line("(?:^|\\n)[ \\t]*#[ \\t]*include[ \\t]*[\"<]([^\">]+)[\">]");
  const std::string text = text_of(kRoot / file);
  Names found;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), line); match != std::sregex_iterator();
       ++match)
    found.push_back((*match)[1]);
  return found;
}

bool is_ours(const std::string& include) { return fs::exists(kRoot / include); }
bool is_libtorch(const std::string& include) {
  return starts_with(include, "ATen/") || starts_with(include, "torch/") || starts_with(include, "c10/");
}

std::string listed(const Names& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// --- rooms ---

// A room is a folder that holds sources. docs/rooms.md lists them in processing order, with what
// each includes.
struct Room {
  std::string folder;
  std::set<std::string> includes;  // rooms, or folders whose rooms are all meant
};

std::vector<Room> listed_rooms() {
  const std::string text = text_of(kRoot / "docs/rooms.md");
  static const std::regex row("\\n\\| `([a-z0-9_/]+)/` \\|[^|\\n]*\\|([^|\\n]*)\\|");
  static const std::regex name("`([a-z0-9_/]+)`");
  std::vector<Room> rooms;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), row); match != std::sregex_iterator();
       ++match) {
    Room room{(*match)[1], {}};
    const std::string names = (*match)[2];
    for (auto at = std::sregex_iterator(names.begin(), names.end(), name); at != std::sregex_iterator(); ++at)
      room.includes.insert((*at)[1]);
    rooms.push_back(room);
  }
  REQUIRE(rooms.size() > 20);
  return rooms;
}

std::string folder_of(const std::string& file) { return fs::path(file).parent_path(); }
bool is_gloo(const std::string& file) { return file.find("gloo_declarations/") != std::string::npos; }

TEST_CASE("every folder with sources is a room of docs/rooms.md, and every room has sources") {
  std::set<std::string> told, there;
  for (const Room& room : listed_rooms()) told.insert(room.folder);
  for (const std::string& file : sources_in(kFolders))
    if (!is_gloo(file)) there.insert(folder_of(file));
  CHECK(told == there);
}

TEST_CASE("a room includes what docs/rooms.md says, all of it, and only rooms that stand above it") {
  const std::vector<Room> rooms = listed_rooms();
  Names wrong;
  std::set<std::string> above;
  for (const Room& room : rooms) {
    std::set<std::string> unused = room.includes;
    for (const std::string& file : sources_in({room.folder})) {
      if (folder_of(file) != room.folder) continue;
      for (const std::string& include : includes_of(file)) {
        const std::string other = folder_of(include);
        if (!is_ours(include) || other == room.folder) continue;
        const std::string top = other.substr(0, other.find('/'));
        const std::string name = room.includes.contains(other) ? other : top;
        if (room.includes.contains(name))
          unused.erase(name);
        else
          wrong.push_back(file + " includes " + include);
        if (!above.contains(other))
          wrong.push_back(file + " includes " + include + ", which does not stand above");
      }
    }
    for (const std::string& name : unused) wrong.push_back(room.folder + " includes nothing of " + name);
    above.insert(room.folder);
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("a folder holds at most fifteen units and ten rooms") {
  // A subcommand, a pass, an op and a model are a unit or a folder each, however many there are.
  const std::set<std::string> as_many_as_there_are = {"apps/rondo", "compiler/passes", "ops", "models"};
  std::map<std::string, std::set<std::string>> units, rooms;
  for (const std::string& file : sources_in(kFolders)) {
    if (is_gloo(file)) continue;
    units[folder_of(file)].insert(fs::path(file).stem());
    for (fs::path folder = folder_of(file); folder.has_parent_path(); folder = folder.parent_path())
      rooms[folder.parent_path()].insert(folder);
  }
  Names wrong;
  for (const auto& [folder, inside] : units)
    if (inside.size() > 15 && !as_many_as_there_are.contains(folder))
      wrong.push_back(fmt::format("{}: {} units", folder, inside.size()));
  for (const auto& [folder, inside] : rooms)
    if (inside.size() > 10 && !as_many_as_there_are.contains(folder))
      wrong.push_back(fmt::format("{}: {} rooms", folder, inside.size()));
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("every include of our own is written as the path from the root") {
  Names wrong;
  for (const std::string& file : sources_in(kFolders))
    for (const std::string& include : includes_of(file))
      if (include.find('/') == std::string::npos && fs::exists((kRoot / file).parent_path() / include))
        wrong.push_back(file + " includes " + include);
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

// --- LibTorch ---

// Targets that link no LibTorch.
const std::map<std::string, std::string> kTargetsWithoutLibTorch = {
    {"support_log", "support"},
    {"support", "support"},
    {"parallel_host", "parallel"},
    {"models_host", "models"},
    {"compiler_core", "compiler"},
    {"launcher", "launch"},
    {"datasets", "datasets"},
    {"tokenizer", "datasets/tokenizer"},
    {"checkpoint", "checkpoint"},
    {"safetensors", "checkpoint/safetensors"},
    {"hugging_face", "checkpoint/hugging_face"},
    {"config", "config"},
    {"runs", "runs"},
    {"run_metrics", "runs/metrics"},
    {"prove", "prove"},
    {"worker_options", "apps"},
    {"rondo", "apps"},
};

// Of sources_in({folder}), those that the patterns of file(GLOB `name` ...) find.
Names sources_of_glob(const std::string& name, const std::string& folder, const std::string& text) {
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex("file\\(GLOB " + name + "\\s([^)]*)\\)")));
  const std::string patterns = std::regex_replace(
      std::regex_replace(found[1].str(), std::regex("\\*"), "[^/]*"), std::regex("\\s+"), "|" + folder + "/");
  Names files = sources_in({folder});
  std::erase_if(files,
                [&](const std::string& file) { return !std::regex_match(file, std::regex(patterns)); });
  return files;
}

// The sources that a CMakeLists.txt names for a target, one by one or by a pattern.
Names sources_of_target(const std::string& target, const std::string& folder) {
  const std::string text = text_of(kRoot / folder / "CMakeLists.txt");
  const std::regex block("add_(?:library|executable)\\(" + target + "\\s([^)]*)\\)");
  std::smatch found;
  REQUIRE(std::regex_search(text, found, block));
  const std::string words = found[1];
  static const std::regex source("[A-Za-z0-9_/]+\\.cpp");
  Names files;
  for (auto match = std::sregex_iterator(words.begin(), words.end(), source); match != std::sregex_iterator();
       ++match)
    files.push_back(folder + "/" + match->str());
  static const std::regex glob("\\$\\{(\\w+_sources)\\}");
  for (auto match = std::sregex_iterator(words.begin(), words.end(), glob); match != std::sregex_iterator();
       ++match)
    for (const std::string& file : sources_of_glob((*match)[1], folder, text)) files.push_back(file);
  REQUIRE_FALSE(files.empty());
  return files;
}

// The first way from `file` to a LibTorch header, over our own headers; "" if there is none.
std::string way_to_libtorch(const std::string& file, std::set<std::string>& seen) {
  if (!seen.insert(file).second) return "";
  for (const std::string& include : includes_of(file)) {
    if (is_libtorch(include)) return file + " -> " + include;
    if (!is_ours(include)) continue;
    const std::string way = way_to_libtorch(include, seen);
    if (!way.empty()) return file + " -> " + way;
  }
  return "";
}

TEST_CASE(
    "the compiler's core, the launcher, the configuration, the data and rondo itself include no LibTorch") {
  Names wrong;
  for (const auto& [target, folder] : kTargetsWithoutLibTorch) {
    for (const std::string& file : sources_of_target(target, folder)) {
      std::set<std::string> seen;
      const std::string way = way_to_libtorch(file, seen);
      if (!way.empty()) wrong.push_back(target + ": " + way);
    }
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("no file includes the whole of LibTorch, and headers no more than tensors and devices") {
  // Adapters that few files include: a kernel's own calling convention, and what moves a group's
  // data.
  const Names exceptions = {"compiler/execute/boxed_node.h", "ops/kernel/op_handle.h",
                            "parallel/groups/nccl.h", "parallel/groups/ordered_gloo.h"};
  Names folders = kFolders, wrong;
  folders.push_back("tests");
  for (const std::string& file : sources_in(folders)) {
    const bool excepted = std::find(exceptions.begin(), exceptions.end(), file) != exceptions.end();
    for (const std::string& include : includes_of(file)) {
      const bool whole =
          include == "torch/torch.h" || include == "torch/extension.h" || include == "ATen/ATen.h";
      const bool heavy = is_header(file) && is_libtorch(include) && !excepted &&
                         include != "ATen/core/Tensor.h" && include != "c10/core/Device.h";
      if (whole || heavy) wrong.push_back(file + " includes " + include);
    }
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

// Names of the shared libraries that an executable asks for.
Names needed_by(const fs::path& executable) {
  const ProgramResult elf = run_program({"/usr/bin/readelf", "-d", executable}, 60'000);
  REQUIRE(elf.exit_code == 0);
  static const std::regex line("\\(NEEDED\\)[^\\[]*\\[([^\\]]+)\\]");
  Names found;
  for (auto match = std::sregex_iterator(elf.output.begin(), elf.output.end(), line);
       match != std::sregex_iterator(); ++match)
    found.push_back((*match)[1]);
  REQUIRE_FALSE(found.empty());
  return found;
}

bool any_starts_with(const Names& names, const std::string& prefix) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return starts_with(name, prefix); });
}

TEST_CASE("rondo links no LibTorch, and its worker the CPU half only") {
  if (!fs::exists("/usr/bin/readelf")) SKIP("readelf is not installed");
  const Names rondo = needed_by(RONDO_BINARY_DIR "/rondo");
  INFO(listed(rondo));
  for (const char* library : {"libtorch", "libc10", "libgomp", "libcuda"})
    CHECK_FALSE(any_starts_with(rondo, library));
  const Names worker = needed_by(RONDO_BINARY_DIR "/rondo-worker");
  INFO(listed(worker));
  CHECK(any_starts_with(worker, "libtorch_cpu"));
#ifndef RONDO_CUDA
  CHECK_FALSE(any_starts_with(worker, "libtorch_cuda"));
  CHECK_FALSE(any_starts_with(worker, "libcuda"));
#endif
}

// --- sizes and names ---

TEST_CASE("sources have at most 400 lines and headers at most 200") {
  Names folders = kFolders, wrong;
  folders.push_back("tests");
  for (const std::string& file : sources_in(folders)) {
    const std::string text = text_of(kRoot / file);
    const auto lines = std::count(text.begin(), text.end(), '\n');
    if (lines > (is_header(file) ? 200 : 400)) wrong.push_back(fmt::format("{}: {} lines", file, lines));
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("headers begin with a comment and say pragma once") {
  Names wrong;
  for (const std::string& file : sources_in(kFolders)) {
    if (!is_header(file) || file.find("gloo_declarations/") != std::string::npos) continue;
    const std::string text = text_of(kRoot / file);
    if (!starts_with(text, "//")) wrong.push_back(file + ": no comment");
    if (text.find("\n#pragma once\n") == std::string::npos) wrong.push_back(file + ": no #pragma once");
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("files named in comments and in docs exist") {
  static const std::regex named("[A-Za-z0-9_][A-Za-z0-9_/.-]*\\.(?:h|cpp|cu|cuh|md)\\b");
  std::set<std::string> paths;
  Names folders = kFolders;
  for (const char* more : {"tests", "docs", "configs", "scripts", "benchmarks"}) folders.push_back(more);
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      paths.insert("/" + fs::relative(entry.path(), kRoot).string());
  for (const char* file : {"/README.md", "/ARCHITECTURE.md", "/CONTRIBUTING.md"}) paths.insert(file);
  static const std::regex placeholder("(.*/)?x(_[a-z_]+)?\\.[a-z]+");  // of what may be added
  // Of other projects, and of the toolkit.
  const std::set<std::string> foreign = {"cuda_runtime.h", "driver_types.h", "kineto_shim.h", "nccl.h"};
  const auto exists = [&](const std::string& name) {
    return foreign.contains(name) || is_libtorch(name) || std::regex_match(name, placeholder) ||
           std::any_of(paths.begin(), paths.end(),
                       [&](const std::string& path) { return path.ends_with("/" + name); });
  };
  Names files = sources_in(kFolders), wrong;
  for (const std::string& path : paths)
    if (path.ends_with(".md") && path.find("/results/") == std::string::npos) files.push_back(path.substr(1));
  for (const std::string& file : files) {
    const bool prose = file.ends_with(".md");
    if (prose && !fs::exists(kRoot / file)) continue;
    std::ifstream in(kRoot / file);
    for (std::string line; std::getline(in, line);) {
      const std::size_t comment = prose ? 0 : line.find("//");
      if (comment == std::string::npos) continue;
      for (auto match =
               std::sregex_iterator(line.begin() + static_cast<std::ptrdiff_t>(comment), line.end(), named);
           match != std::sregex_iterator(); ++match)
        if (!exists(match->str())) wrong.push_back(file + " names " + match->str());
    }
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("no folder or file is named utils, common, core or base, and nothing is left to do later") {
  static const std::regex vague("(^|.*/)(utils?|common|core|base|helpers?|misc)(\\.[a-z]+|/.*)$");
  static const std::regex later("\\b(TODO|FIXME|XXX|HACK)\\b");
  Names wrong;
  for (const std::string& file : sources_in(kFolders)) {
    if (file.find("gloo_declarations/") != std::string::npos) continue;  // Gloo's own names
    if (std::regex_match(file, vague)) wrong.push_back(file);
    if (std::regex_search(text_of(kRoot / file), later)) wrong.push_back(file + ": something left for later");
  }
  INFO(listed(wrong));
  CHECK(wrong.empty());
}

}  // namespace
}  // namespace rondo

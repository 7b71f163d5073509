// mkdir decides who began: only a process that made the folder looks for a finished output, since one that
// finds the folder is resuming. Then a lock on the folder keeps a second process out. Parts count only
// with the job file that says what they were made from; it is written under another name and renamed, and it
// is the first to be removed. A file system without locks is accepted.
#include "datasets/token_files/parts_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <regex>
#include <string_view>

#include "support/error.h"
#include "support/files/atomic_file.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tokens";

std::string stem_of(const std::string& output) { return output.substr(0, output.size() - kSuffix.size()); }

// The output, or the first of its shards, that is there; "" if there is none.
std::string finished_output(const std::string& output) {
  std::error_code wrong;
  if (fs::exists(output, wrong)) return output;
  const std::string stem = fs::path(stem_of(output)).filename().string();
  for (auto it = fs::directory_iterator(folder_of(output), wrong); !wrong && it != fs::directory_iterator();
       it.increment(wrong)) {
    const std::string name = it->path().filename().string();
    static const std::regex shard("-[0-9]{5}-of-[0-9]{5}\\.tokens");
    if (name.starts_with(stem) && std::regex_match(name.substr(stem.size()), shard))
      return it->path().string();
  }
  return "";
}

// The job goes first: parts without one are of no use.
void remove_contents(const fs::path& folder) {
  std::error_code wrong;
  fs::remove(folder / "job", wrong);
  for (auto it = fs::directory_iterator(folder, wrong); !wrong && it != fs::directory_iterator();
       it.increment(wrong)) {
    std::error_code kept;
    if (it->path().filename() != FolderLock::kFile) fs::remove(it->path(), kept);
  }
}

}  // namespace

std::string shard_name(const std::string& output, std::size_t number, std::size_t count) {
  if (count == 0) return output;
  return fmt::format("{}-{:05}-of-{:05}{}", stem_of(output), number, count, kSuffix);
}

PartsFolder::PartsFolder(const std::string& output, const std::string& job) {
  if (!output.ends_with(kSuffix) || fs::path(output).filename() == kSuffix)
    throw Error(ExitCode::usage,
                fmt::format("the output \"{}\" must be a file name that ends with .tokens", output));
  folder_ = folder_of(output) / fmt::format(".{}.parts", fs::path(output).filename().string());
  if (::mkdir(folder_.c_str(), 0777) == 0) {
    if (const std::string there = finished_output(output); !there.empty()) {
      ::rmdir(folder_.c_str());
      throw Error(ExitCode::usage,
                  fmt::format("{} exists already: remove it, or name another output", there));
    }
  } else if (errno != EEXIST) {
    throw FileError("write", folder_, errno, FileUse::output);
  }
  lock_ = FolderLock::take_patiently(folder_, FileUse::output);
  if (!lock_)
    throw Error(ExitCode::environment,
                fmt::format("another process is writing {}: wait for it, or name another output", output));
  std::ifstream in(folder_ / "job", std::ios::binary);
  if (const std::string before{std::istreambuf_iterator<char>(in), {}}; before != job) {
    remove_contents(folder_);
    replace_file(folder_ / "job", job, FileUse::output);
  }
}

std::string PartsFolder::part(std::size_t number) const {
  return (folder_ / fmt::format("part-{:06}.tokens", number)).string();
}

void PartsFolder::remove() {
  remove_contents(folder_);
  FolderLock::remove_folder(folder_);
}

}  // namespace rondo

// mkdir decides which process began. Only the process that created the folder checks for a finished
// output, since one that finds the folder resumes. A lock on the folder then keeps other processes
// out. Parts count only if the job file is equal to this job's. It is replaced atomically and
// removed first. A file system without locks is accepted.
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
#include "support/files/owner.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tokens";

std::string stem_of(const std::string& output) { return output.substr(0, output.size() - kSuffix.size()); }

// Returns the output or one of its shards, if one exists; otherwise "".
std::string finished_output(const std::string& output) {
  std::error_code error;
  if (fs::exists(output, error)) return output;
  const std::string stem = fs::path(stem_of(output)).filename().string();
  for (auto it = fs::directory_iterator(folder_of(output), error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    static const std::regex shard("-[0-9]{5}-of-[0-9]{5}\\.tokens");
    if (name.starts_with(stem) && std::regex_match(name.substr(stem.size()), shard))
      return it->path().string();
  }
  return "";
}

// Removes the job file first: parts without it do not count.
void remove_contents(const fs::path& folder) {
  std::error_code error;
  fs::remove(folder / "job", error);
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename() != FolderLock::kFile) fs::remove(it->path(), ignored);
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
    if (const std::string finished = finished_output(output); !finished.empty()) {
      ::rmdir(folder_.c_str());
      throw Error(ExitCode::usage,
                  fmt::format("{} exists already: remove it, or name another output", finished));
    }
  } else if (errno != EEXIST) {
    throw FileError("write", folder_, errno, FileUse::output);
  }
  if (!is_own(folder_))
    throw Error(ExitCode::environment,
                fmt::format("{} belongs to another user, who could choose the tokens: remove it, or name "
                            "another output",
                            folder_.string()));
  lock_ = FolderLock::take_patiently(folder_, FileUse::output);
  if (!lock_)
    throw Error(ExitCode::environment,
                fmt::format("another process is writing {}: wait for it, or name another output", output));
  std::ifstream in(folder_ / "job", std::ios::binary);
  if (const std::string saved_job{std::istreambuf_iterator<char>(in), {}}; saved_job != job) {
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

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "config/read/assignment.h"
#include "support/process_start.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

class FilesReader {
 public:
  explicit FilesReader(Problems& problems) : problems_(problems) {}

  void read(const std::string& path, const std::string& place) {
    std::error_code ignored;
    const std::string file = fs::weakly_canonical(path, ignored).string();
    const bool closes_circle = std::find(open_.begin(), open_.end(), file) != open_.end();
    open_.push_back(file);
    if (closes_circle)
      problems_.add(place, fmt::format("a file must not include itself: {}", fmt::join(open_, " includes ")));
    else
      read_open(path, place);
    open_.pop_back();
  }

  std::vector<Assignment> take() { return std::move(all_); }

 private:
  void read_open(const std::string& path, const std::string& place) {
    std::vector<Assignment> own = read_toml_file(path, place, problems_);
    for (const Assignment& assignment : own)
      if (assignment.key == "include") include(assignment, fs::path(path).parent_path());
    std::erase_if(own, [](const Assignment& assignment) { return assignment.key == "include"; });
    std::move(own.begin(), own.end(), std::back_inserter(all_));
  }

  void include(const Assignment& assignment, const fs::path& folder) {
    const auto* files = std::get_if<std::vector<std::string>>(&assignment.value);
    if (files == nullptr)
      return problems_.add(assignment.place, assignment.shown + ": must be a list of files, [\"site.toml\"]");
    for (const std::string& file : *files)
      read((folder / file).lexically_normal().string(), assignment.place + ": " + assignment.shown);
  }

  Problems& problems_;
  std::vector<std::string> open_;  // the current file, after the files that include it
  std::vector<Assignment> all_;
};

}  // namespace

std::vector<Assignment> read_toml_files(const std::vector<ConfigFile>& files, Problems& problems) {
  FilesReader reader(problems);
  for (const auto& [path, place] : files)
    reader.read(path.starts_with("configs/") ? here_or_shipped(path) : path, place);
  return reader.take();
}

}  // namespace rondo

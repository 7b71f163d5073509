// Walks folders recursively. Folders are identified by device and inode, so links that lead back
// end there. Names are sorted before they are entered, so that of two ways into one folder the same
// one always counts. The listing's file type saves a system call for each regular file. Ids are
// relative to the named folder, so they are equal on every machine. The result is sorted by id.
#include "datasets/documents/files.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "datasets/documents/content.h"
#include "datasets/documents/order.h"
#include "support/error.h"
#include "support/files/file_error.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view entry, const std::string& what) {
  throw Error(ExitCode::data, fmt::format("data path \"{}\": {}", entry, what));
}

bool is_unfinished(std::string_view name) {
  for (const std::string_view suffix :
       {".incomplete", ".tmp", ".part", ".partial", ".crdownload", ".filepart", ".swp", ".lock", ".bak", "~"})
    if (has_suffix(name, suffix)) return true;
  return false;
}

// Walks one entry of the list and collects its files.
class Walk {
 public:
  Walk(std::string_view entry, FoundFiles& found) : entry_(entry), found_(found) {}

  // `id` is empty for the folder that the user named.
  void visit(const std::string& path, const std::string& id) {
    std::error_code error;
    const fs::file_type type = fs::status(path, error).type();
    if (type == fs::file_type::directory) {
      visit_folder(path, id);
    } else if (type == fs::file_type::regular && id.empty()) {
      found_.files.push_back({path, fs::path(path).filename().string()});
    } else if (type == fs::file_type::regular) {
      add(path, id);
    } else if (type == fs::file_type::not_found || type == fs::file_type::none) {
      unreadable(path, error);
    } else {
      ++found_.skipped_special;
    }
  }

 private:
  void add(const std::string& path, const std::string& id) {
    if (!is_unfinished(id)) {
      found_.files.push_back({path, id});
    } else if (found_.skipped_unfinished++ == 0 || id < found_.first_unfinished) {
      found_.first_unfinished = id;
    }
  }

  void visit_folder(const std::string& path, const std::string& id) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) unreadable(path, std::error_code(errno, std::generic_category()));
    if (!seen_.insert({info.st_dev, info.st_ino}).second) return;

    std::error_code error;
    std::vector<std::string> names;
    fs::directory_iterator it(path, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      std::string name = it->path().filename().string();
      if (name.front() == '.') {
        ++found_.skipped_hidden;
      } else if (it->is_symlink(error) || !it->is_regular_file(error)) {
        names.push_back(std::move(name));
      } else {  // a regular file by the listing: no system call is needed
        add(path + "/" + name, join(id, name));
      }
    }
    if (error) unreadable(path, error);
    // Sorted, so that of two ways into one folder the same one always counts.
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) visit(path + "/" + name, join(id, name));
  }

  static std::string join(const std::string& folder, const std::string& name) {
    return folder.empty() ? name : folder + "/" + name;
  }

  [[noreturn]] void unreadable(const std::string& path, std::error_code why) const {
    std::error_code ignored;
    const bool link = fs::is_symlink(path, ignored);
    if (!why) why = std::make_error_code(std::errc::no_such_file_or_directory);
    fail(entry_, fmt::format("cannot read {}{}: {}. Remove it, or make it readable",
                             link ? "the symlink " : "", path, why.message()));
  }

  std::string_view entry_;
  FoundFiles& found_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

void expand_glob(const std::string& pattern, Walk& walk) {
  if (pattern.find("**") != std::string::npos)
    fail(pattern, "** is not supported. Name the folder: folders are read recursively");
  glob_t matches{};
  const int result = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &matches);
  const std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  if (result == GLOB_NOMATCH) fail(pattern, "nothing matches this pattern");
  if (result != 0) fail(pattern, "a folder of this pattern cannot be read");

  const std::size_t slash = pattern.rfind('/', pattern.find_first_of("*?["));
  const std::size_t fixed = slash == std::string::npos ? 0 : slash + 1;
  for (const std::string& path : paths) walk.visit(path, path.substr(fixed));
}

void find_entry(const std::string& entry, FoundFiles& found) {
  const std::size_t first = found.files.size();
  Walk walk(entry, found);
  std::error_code error;
  const bool exists = fs::symlink_status(entry, error).type() != fs::file_type::not_found;
  if (exists) {
    walk.visit(entry, "");
  } else if (entry.find_first_of("*?[") != std::string::npos) {
    expand_glob(entry, walk);
  } else if (entry.find("://") != std::string::npos) {
    fail(entry, "is an address, and data is read from file systems only. Mount the store, or copy the files");
  } else {
    fail(entry,
         "no such file or folder. Name a text file, a .jsonl or .packed file, a folder or a glob "
         "(scripts/make_corpus.sh builds the default corpus)");
  }
  if (found.files.size() == first) fail(entry, "no file in it (hidden and unfinished files are skipped)");
  std::sort(found.files.begin() + static_cast<std::int64_t>(first), found.files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.id < b.id; });
}

}  // namespace

std::vector<std::string> split_paths(std::string_view paths) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin <= paths.size();) {
    const std::size_t comma = std::min(paths.find(',', begin), paths.size());
    std::string_view entry = paths.substr(begin, comma - begin);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    if (!entry.empty()) entries.emplace_back(entry);
    begin = comma + 1;
  }
  return entries;
}

FoundFiles find_files(std::string_view paths) {
  const std::vector<std::string> entries = split_paths(paths);
  if (entries.empty()) fail(paths, "empty. Name a text file, a .jsonl or .packed file, a folder or a glob");
  FoundFiles found;
  for (const std::string& entry : entries) find_entry(entry, found);
  return found;
}

std::uint64_t files_hash(const std::vector<SourceFile>& files) {
  constexpr std::int64_t kSampledBlocks = 256;  // 1 MiB, for any size of the data
  std::vector<std::string> paths;
  for (const SourceFile& file : files) paths.push_back(file.path);
  std::uint64_t hash = files.size();
  const auto mix = [&](std::uint64_t value) { hash = mix64(hash ^ mix64(value)); };
  for (const SourceFile& file : files) {
    struct stat info {};
    if (::stat(file.path.c_str(), &info) != 0) throw FileError("look at", file.path, errno, FileUse::data);
    mix(stable_hash(file.id));
    mix(static_cast<std::uint64_t>(info.st_size));
    mix(static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
        static_cast<std::uint64_t>(info.st_mtim.tv_nsec));
  }
  mix(sampled_hash(paths, kSampledBlocks));
  return hash;
}

}  // namespace rondo

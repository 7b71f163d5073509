// One pass over the files of an entry sums up bytes by format, and the rule of the folder follows
// from the sums. So it depends on contents and sizes alone, and is the same on every rank.
#include "datasets/select_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "datasets/documents/text_file.h"
#include "datasets/split_names.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/files/file_error.h"

namespace rondo {
namespace {

struct FormatCount {
  std::int64_t files = 0, bytes = 0;
  std::string first;  // path
  void add(const std::string& path, std::int64_t size) {
    if (files++ == 0) first = path;
    bytes += size;
  }
};
// By name, so that formats that are read alike are one kind.
using FormatCounts = std::map<std::string, FormatCount>;

std::int64_t bytes_of(const FormatCounts& kinds) {
  std::int64_t bytes = 0;
  for (const auto& [name, kind] : kinds) bytes += kind.bytes;
  return bytes;
}

std::string listed(const FormatCounts& kinds) {
  std::string text;
  for (const auto& [name, kind] : kinds)
    text += fmt::format("{}{} {} ({}{})", text.empty() ? "" : ", ", kind.files, name,
                        kind.files == 1 ? "" : "the first is ", kind.first);
  return text;
}

bool is_data(FileFormat format) {
  return format != FileFormat::text && format != FileFormat::json && format != FileFormat::binary;
}

// Returns whether files of this format are documents of a corpus of text.
bool is_text_like(FileFormat format) {
  using enum FileFormat;
  return format == json_lines || format == json || format == json_array || format == csv || format == tsv;
}

// Files that come with data sets and are no documents of them.
bool is_companion(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* prefix :
       {"readme", "license", "licence", "copying", "notice", "citation", "changelog", "_success"})
    if (name.starts_with(prefix)) return true;
  return name.ends_with(".sha256") || name.ends_with(".md5") || name.ends_with("sums");
}

// Results of Dataset.map, which the package datasets keeps beside the tables of save_to_disk.
bool is_cached_map(const SourceFile& file) {
  const std::filesystem::path path(file.path);
  std::error_code ignored;
  return file.as.format == FileFormat::arrow_stream && path.filename().string().starts_with("cache-") &&
         std::filesystem::exists(path.parent_path() / "state.json", ignored);
}

// Returns the bytes of the file that a pointer of Git LFS stands for.
std::int64_t pointed_bytes(const std::string& path) {
  constexpr std::int64_t kMaxPointerBytes = 4096;
  constexpr std::string_view kSize = "\nsize ";
  const std::string text = read_file(path, kMaxPointerBytes, FileUse::data);
  const std::size_t size = text.find(kSize);
  return size == text.npos ? 0 : std::strtoll(text.c_str() + size + kSize.size(), nullptr, 10);
}

class EntryFiles {
 public:
  EntryFiles(std::string_view entry, std::string_view text_key, SelectedFiles& selected)
      : entry_(entry), text_key_(text_key), selected_(selected), found_(find_files(entry)) {
    for (SourceFile& file : found_.files) file.as = recognise(file.path, text_key_);
    selected_.skipped_hidden += found_.skipped_hidden;
    selected_.skipped_special += found_.skipped_special;
  }

  void select() {
    const bool one_file = found_.files.size() == 1 && found_.files[0].path == entry_;
    if (!one_file) {
      leave_out_cached_maps();
      sum_up();
      choose();
    }
    for (SourceFile& file : found_.files) {
      const bool is_skipped = !one_file && file.as.format == FileFormat::binary;  // by the corpus
      if ((!is_read(file.as.format) && !is_skipped) ||
          (file.as.compressed && (is_token_format(file.as.format) || is_table(file.as.format))))
        refuse(file.path, file.as, text_key_);
      selected_.files.push_back(std::move(file));
    }
    note();
  }

 private:
  void leave_out_cached_maps() {
    std::erase_if(found_.files, [&](const SourceFile& file) {
      const bool is_cached = is_cached_map(file);
      if (is_cached) left_out_["cached by datasets"].add(file.id, 0);
      return is_cached;
    });
  }

  void sum_up() {
    std::vector<SourceFile> kept;
    for (SourceFile& file : found_.files) {
      struct stat info {};
      if (::stat(file.path.c_str(), &info) != 0) throw FileError("look at", file.path, errno, FileUse::data);
      const FileFormat format = file.as.format;
      total_ += info.st_size;
      if (info.st_size == 0 && is_data(format)) {  // a name alone is no data
        left_out_["empty"].add(file.id, 0);
        continue;
      }
      if (is_data(format))
        data_[name_of(format)].add(file.path,
                                   format == FileFormat::git_lfs ? pointed_bytes(file.path) : info.st_size);
      if (format == FileFormat::binary) binary_.add(file.path, info.st_size);
      if (format == FileFormat::text && !is_companion(file.path)) text_.add(file.path, info.st_size);
      if (format == FileFormat::json) json_.add(file.path, info.st_size);
      kept.push_back(std::move(file));
    }
    found_.files = std::move(kept);
  }

  void choose() {
    if (binary_.bytes > total_ / 2) fail_binary();
    const std::int64_t data = bytes_of(data_);
    if (data_.empty() ? text_.bytes >= json_.bytes : text_.bytes > data) return choose_text();
    if (data_.empty()) return keep([](FileFormat format) { return format == FileFormat::json; });
    if (data_.size() > 1) fail_mixed();
    keep(is_data);
    if (std::string warning = warn_of_splits(entry_, found_.files); !warning.empty())
      selected_.warnings.push_back(std::move(warning));
  }

  void choose_text() {
    for (SourceFile& file : found_.files) {
      if (!is_text_like(file.as.format)) continue;
      as_text_[name_of(file.as.format)].add(file.id, 0);
      file.as.format = FileFormat::text;
    }
    keep([](FileFormat format) { return is_read(format) || format == FileFormat::binary; });
  }

  template <class Condition>
  void keep(const Condition& condition) {
    std::vector<SourceFile> kept;
    for (SourceFile& file : found_.files) {
      if (condition(file.as.format)) {
        kept.push_back(std::move(file));
      } else {
        left_out_[name_of(file.as.format)].add(file.id, 0);
        selected_.skipped_binary += file.as.format == FileFormat::binary;
      }
    }
    found_.files = std::move(kept);
  }

  void note() {
    if (found_.skipped_unfinished > 0)
      left_out_["unfinished"] = {found_.skipped_unfinished, 0, found_.first_unfinished};
    if (!left_out_.empty())
      selected_.notes.push_back(
          fmt::format("{}: files read: {}; left out: {}", entry_, found_.files.size(), listed(left_out_)));
    if (!as_text_.empty())
      selected_.notes.push_back(fmt::format(
          "{}: most of it is text, so these are read as text, too: {}. Name the other files, or a "
          "glob, to leave them out",
          entry_, listed(as_text_)));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::data, fmt::format("data path \"{}\": {}", entry_, what));
  }

  // Returns a glob for files of one data format that is read; "" if each would match others too.
  std::string glob_of_one_format() const {
    const auto is_of = [](const SourceFile& file, const std::string& glob) {
      const std::filesystem::path path = file.path, pattern = glob;
      return path.parent_path() == pattern.parent_path() &&
             path.filename().string().ends_with(pattern.filename().string().substr(1));
    };
    for (const SourceFile& file : found_.files) {
      if (!is_data(file.as.format) || !is_read(file.as.format)) continue;
      const std::filesystem::path path = file.path;
      const std::filesystem::path plain = without_compression(path.filename().string());
      const std::string suffix = path.filename().string().substr(plain.stem().string().size());
      const std::string glob = (path.parent_path() / ("*" + suffix)).string();
      if (!suffix.empty() &&
          std::all_of(found_.files.begin(), found_.files.end(), [&](const SourceFile& other) {
            return !is_of(other, glob) || name_of(other.as.format) == name_of(file.as.format);
          }))
        return glob;
    }
    return "";
  }

  [[noreturn]] void fail_mixed() const {
    const std::string glob = glob_of_one_format();
    fail(fmt::format("holds several data formats: {}. Name the files of one format{}", listed(data_),
                     glob.empty() ? "" : fmt::format(", or a glob such as \"{}\"", glob)));
  }

  [[noreturn]] void fail_binary() const {
    try {
      refuse(binary_.first, {FileFormat::binary}, text_key_);
    } catch (const Error& error) {
      fail(fmt::format(
          "{} of {} files are binary and have {} of {} bytes. Name the other files, or a glob. The "
          "first of them is {}",
          binary_.files, found_.files.size(), binary_.bytes, total_, error.what()));
    }
  }

  std::string_view entry_, text_key_;
  SelectedFiles& selected_;
  FoundFiles found_;
  std::int64_t total_ = 0;  // bytes
  FormatCounts data_, left_out_, as_text_;
  FormatCount text_, json_, binary_;
};

// Returns a warning when a file is listed twice, by one path or by several: an epoch then trains on
// its documents twice.
std::vector<std::string> warn_of_repeats(const std::vector<SourceFile>& files) {
  struct Place {
    dev_t device;
    ino_t inode;
    std::size_t file;
    auto operator<=>(const Place&) const = default;
    bool is_of(const Place& other) const { return device == other.device && inode == other.inode; }
  };
  std::vector<Place> places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    struct stat facts {};
    if (::stat(files[i].path.c_str(), &facts) == 0) places.push_back({facts.st_dev, facts.st_ino, i});
  }
  std::sort(places.begin(), places.end());
  std::int64_t repeats = 0;
  std::string first;
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (!places[i].is_of(places[i - 1])) continue;
    if (repeats++ == 0)
      first =
          fmt::format("{} and {} are one file", files[places[i - 1].file].path, files[places[i].file].path);
  }
  if (repeats == 0) return {};
  const std::string more = repeats == 1 ? "" : fmt::format(", and {} more are listed twice", repeats - 1);
  return {fmt::format("{}{}: its documents count twice", first, more)};
}

}  // namespace

SelectedFiles select_files(std::string_view paths, std::string_view text_key) {
  const std::vector<std::string> entries = split_paths(paths);
  if (entries.empty()) find_files(paths);  // says so
  SelectedFiles selected;
  for (const std::string& entry : entries) EntryFiles(entry, text_key, selected).select();
  for (std::string& warning : warn_of_repeats(selected.files))
    selected.warnings.push_back(std::move(warning));
  return selected;
}

}  // namespace rondo

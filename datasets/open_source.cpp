// Recognises the format of each file of a data path and joins the sources of several files. Text
// files that follow each other form one corpus; each token file is a source.
#include "datasets/open_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "datasets/text_source.h"
#include "datasets/token_files/token_file.h"
#include "support/error.h"

namespace rondo {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool begins_with(const std::string& path, std::string_view magic) {
  std::ifstream in(path, std::ios::binary);
  std::string head(magic.size(), '\0');
  return in.read(head.data(), static_cast<std::streamsize>(head.size())) && head == magic;
}

std::string without(const std::string& text, std::size_t bytes) {
  return text.substr(0, text.size() - bytes);
}

// Returns `file` with the last `bytes` bytes of path and id replaced by `suffix`.
SourceFile renamed(const SourceFile& file, std::size_t bytes, const char* suffix) {
  return {without(file.path, bytes) + suffix, without(file.id, bytes) + suffix};
}

[[noreturn]] void fail_parquet(const std::string& path) {
  throw Error(
      ExitCode::data,
      fmt::format("{0}: Parquet is not supported. Convert it: `python3 -c \"import pandas; "
                  "pandas.read_parquet('{0}').to_json('{1}.jsonl.gz', orient='records', lines=True)\"`, "
                  "and move it out of the data path",
                  path, without(path, std::string_view(".parquet").size())));
}

NamedFile recognise(const SourceFile& file) {
  const std::string& path = file.path;
  if (path.ends_with(".tokens")) return {file, open_rondo_tokens};
  if (path.ends_with(".ds")) return {file, open_datatrove};
  if (path.ends_with(".parquet")) fail_parquet(path);
  for (const std::string_view suffix : {".index", ".metadata", ".loss"})
    if (path.ends_with(".ds" + std::string(suffix)) && exists(without(path, suffix.size())))
      return {renamed(file, suffix.size(), ""), open_datatrove};
  if (path.ends_with(".idx") && begins_with(path, "MMIDIDX"))
    return {renamed(file, 4, ".bin"), open_megatron};
  if (path.ends_with(".bin")) {
    if (begins_with(without(path, 4) + ".idx", "MMIDIDX")) return {file, open_megatron};
    constexpr std::string_view kGpt2("\x88\xd8\x34\x01", 4),
        kLlama3("\xa1\xd9\x34\x01", 4);  // 20240520, 20240801
    if (begins_with(path, kGpt2) || begins_with(path, kLlama3)) return {file, open_llmc};
  }
  return {file, nullptr};
}

// The documents of several sources, concatenated.
class JoinedSource final : public TokenSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<TokenSource>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      begins_.push_back(documents_);
      documents_ += part->documents();
    }
  }

  std::int64_t documents() const override { return documents_; }
  std::int64_t tokens(std::int64_t document) const override {
    const auto [part, number] = find(document);
    return part.tokens(number);
  }
  std::uint64_t id_hash(std::int64_t document) const override {
    const auto [part, number] = find(document);
    return part.id_hash(number);
  }
  void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) override {
    const auto [part, number] = find(document);
    part.read(number, begin, end, ids);
  }
  std::string identity() const override {  // does not depend on how files are cut into parts
    std::set<std::string> identities;
    for (const auto& part : parts_) identities.insert(part->identity());
    std::string joined;
    for (const std::string& identity : identities) joined += (joined.empty() ? "" : ", ") + identity;
    return joined;
  }
  SourceCounts counts() const override {
    SourceCounts sum;
    for (const auto& part : parts_) {
      const SourceCounts counts = part->counts();
      sum.files += counts.files;
      sum.skipped_binary += counts.skipped_binary;
      sum.skipped_empty += counts.skipped_empty;
      sum.warnings.insert(sum.warnings.end(), counts.warnings.begin(), counts.warnings.end());
    }
    sum.skipped_hidden = path_counts_.skipped_hidden;
    sum.skipped_special = path_counts_.skipped_special;
    sum.warnings.insert(sum.warnings.end(), path_counts_.warnings.begin(), path_counts_.warnings.end());
    return sum;
  }
  void set_path_counts(SourceCounts counts) { path_counts_ = std::move(counts); }

 private:
  struct Place {
    TokenSource& part;
    std::int64_t number;
  };
  Place find(std::int64_t document) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), document);
    const auto index = static_cast<std::size_t>(after - begins_.begin()) - 1;
    return {*parts_[index], document - begins_[index]};
  }

  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<std::int64_t> begins_;  // of each part's documents
  std::int64_t documents_ = 0;
  SourceCounts path_counts_;
};

class Opener {
 public:
  Opener(std::string_view paths, const Tokenizer& tokenizer, const TextOptions& options)
      : paths_(paths), tokenizer_(tokenizer), options_(options) {}

  void add(NamedFile named) {
    if (named.open == nullptr) {
      text_.push_back(std::move(named.file));
      return;
    }
    end_text();
    add_tokens(named);
  }

  std::vector<std::unique_ptr<TokenSource>> take() {
    end_text();
    return std::move(parts_);
  }

 private:
  void add_tokens(const NamedFile& named) {
    std::unique_ptr<TokenFile> file = named.open(named.file, {tokenizer_.vocab_size(), tokenizer_.name()});
    if (named.open == open_rondo_tokens && file->tokenizer() != tokenizer_.name())
      throw Error(ExitCode::data,
                  fmt::format("{}: written with the tokenizer {}, but training.tokenizer is {}. Set "
                              "training.tokenizer to the tokenizer of the file, or tokenize the text again",
                              file->path(), file->tokenizer(), tokenizer_.name()));
    parts_.push_back(std::move(file));
  }

  // Adds the collected text files as one corpus. The byte tokenizer reads uncompressed text in
  // place. Other tokenizers, and compressed files, which allow no random access, use the
  // token cache.
  void end_text() {
    if (text_.empty()) return;
    const bool in_place = dynamic_cast<const ByteTokenizer*>(&tokenizer_) != nullptr &&
                          std::none_of(text_.begin(), text_.end(),
                                       [](const SourceFile& file) { return is_compressed(file.path); });
    if (in_place) {
      parts_.push_back(std::make_unique<TextSource>(text_, options_.text_key));
    } else {
      const std::string tokens = cached_tokens(paths_, text_, tokenizer_, options_);
      add_tokens({{tokens, tokens}, open_rondo_tokens});
    }
    text_.clear();
  }

  std::string_view paths_;
  const Tokenizer& tokenizer_;
  const TextOptions& options_;
  std::vector<SourceFile> text_;
  std::vector<std::unique_ptr<TokenSource>> parts_;
};

}  // namespace

std::vector<NamedFile> recognise_files(const std::vector<SourceFile>& files) {
  // X.bin and X.idx are one data set, and so are X.ds and its companion files. X.bin or X.ds
  // represents the set if it is listed, otherwise the first companion does.
  std::set<std::string> present, represented;
  for (const SourceFile& file : files) present.insert(file.path);
  std::vector<NamedFile> named;
  for (const SourceFile& file : files) {
    NamedFile data_set = recognise(file);
    const bool companion = data_set.file.path != file.path;
    if (companion && (present.contains(data_set.file.path) || !represented.insert(data_set.file.path).second))
      continue;
    named.push_back(std::move(data_set));
  }
  return named;
}

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

std::unique_ptr<TokenSource> open_source(std::string_view paths, const Tokenizer& tokenizer,
                                         const TextOptions& options) {
  const FoundFiles found = find_files(paths);
  Opener opener(paths, tokenizer, options);
  for (NamedFile& named : recognise_files(found.files)) opener.add(std::move(named));
  auto joined = std::make_unique<JoinedSource>(opener.take());
  joined->set_path_counts({.skipped_hidden = found.skipped_hidden,
                           .skipped_special = found.skipped_special,
                           .warnings = warn_of_repeats(found.files)});
  const SourceCounts counts = joined->counts();
  if (joined->documents() == 0)
    throw Error(
        ExitCode::data,
        fmt::format("data path \"{}\": no document in {} files ({} binary, {} empty). Text has no NUL "
                    "byte in its first 8 KiB",
                    paths, counts.files, counts.skipped_binary, counts.skipped_empty));
  return joined;
}

}  // namespace rondo

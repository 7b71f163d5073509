// Joins the sources of several files. Text files that follow each other form one corpus; each token
// file is a source.
#include "datasets/open_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "datasets/documents/content.h"
#include "datasets/documents/order.h"
#include "datasets/select_files.h"
#include "datasets/text_source.h"
#include "datasets/token_files/rondo_source.h"
#include "support/error.h"

namespace rondo {
namespace {

// Returns `file` with the last `bytes` bytes of path and id replaced by `suffix`.
SourceFile renamed(const SourceFile& file, std::size_t bytes, const char* suffix) {
  const auto replace = [&](const std::string& text) { return text.substr(0, text.size() - bytes) + suffix; };
  return {replace(file.path), replace(file.id), file.as};
}

NamedFile name_file(const SourceFile& file) {
  switch (file.as.format) {
    case FileFormat::rondo_tokens:
      return {file, open_rondo_tokens};
    case FileFormat::llmc:
      return {file, open_llmc};
    case FileFormat::megatron:
      return {file.path.ends_with(".idx") ? renamed(file, 4, ".bin") : file, open_megatron};
    case FileFormat::datatrove:
      return {file.path.ends_with(".ds") ? file
                                         : renamed(file, file.path.size() - file.path.rfind(".ds."), ".ds"),
              open_datatrove};
    default:
      return {file, nullptr};
  }
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
    std::set<std::string> identities = identities_;
    for (const auto& part : parts_) identities.insert(part->identity());
    std::string joined;
    for (const std::string& identity : identities) joined += (joined.empty() ? "" : ", ") + identity;
    return joined;
  }
  std::uint64_t content(std::int64_t blocks) const override {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      hash = mix64(hash ^ parts_[i]->content(share_of_blocks(blocks, i, parts_.size())));
    return hash;
  }
  SourceCounts counts() const override {
    SourceCounts sum;
    for (const auto& part : parts_) sum += part->counts();
    sum += path_counts_;
    return sum;
  }
  void set_path_counts(SourceCounts counts) { path_counts_ = std::move(counts); }
  // Adds what determines the tokens in addition to the identities of the parts.
  void add_identities(const std::set<std::string>& identities) { identities_ = identities; }

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
  std::set<std::string> identities_;
};

// A name says what a tokenizer.json means. A file may have the name that another version of the
// program gave it; then the header's hash of the file's text decides.
bool is_made_with(const RondoTokens& file, const Tokenizer& tokenizer) {
  const TokenFileHeader& header = file.header();
  if (file.tokenizer() == tokenizer.name()) return true;
  return header.tokenizer_fingerprint != 0 && header.tokenizer_fingerprint == tokenizer.file_hash() &&
         is_standard(*file.ends(), tokenizer);
}

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

  std::unique_ptr<JoinedSource> take(SourceCounts path_counts) {
    end_text();
    auto joined = std::make_unique<JoinedSource>(std::move(parts_));
    path_counts += counts_;
    joined->set_path_counts(std::move(path_counts));
    joined->add_identities(identities_);
    return joined;
  }

 private:
  void add_tokens(const NamedFile& named) {
    std::unique_ptr<TokenFile> file = named.open(named.file, {tokenizer_.vocab_size(), tokenizer_.name()});
    const auto* rondo_tokens = dynamic_cast<const RondoTokens*>(file.get());
    if (rondo_tokens != nullptr && !is_made_with(*rondo_tokens, tokenizer_))
      throw Error(ExitCode::data,
                  fmt::format("{}: written with the tokenizer {}, but training.tokenizer is {}. Set "
                              "training.tokenizer to the tokenizer of the file, or tokenize the text again",
                              file->path(), file->tokenizer(), tokenizer_.name()));
    if (rondo_tokens != nullptr) {
      add_special_tokens(*rondo_tokens);
      add_identity(*rondo_tokens->ends());
    }
    const auto ends = file->ends();
    if (ends) check_ends(file->path(), *ends, options_.ends, tokenizer_);
    counts_.ends.insert(ends ? shown(*ends, &tokenizer_)
                             : fmt::format("as the {} files have them", file->format()));
    parts_.push_back(std::move(file));
  }

  // The ends of earlier versions add nothing, so that their checkpoints can be resumed.
  void add_identity(const DocumentEnds& ends) {
    if (!is_standard(ends, tokenizer_))
      identities_.insert(fmt::format("ends {} {}", ends.begin.value_or(-1), ends.end.value_or(-1)));
  }

  void add_special_tokens(const RondoTokens& file) {
    const auto stored = file.special_tokens();
    if (!stored) return;
    if (*stored != tokenizer_.special_tokens())
      throw Error(
          ExitCode::data,
          fmt::format("{}: text that spells a control token became {} there, but training.special_tokens "
                      "is \"{}\". Set it to \"{}\", or tokenize the text again",
                      file.path(), *stored == SpecialTokens::text ? "text" : "the token",
                      name_of(tokenizer_.special_tokens()), name_of(*stored)));
    counts_.spelled = counts_.spelled.value_or(0) + file.spelled();
    if (*stored == SpecialTokens::text && file.spelled() > 0) identities_.insert("control tokens are text");
  }

  // Adds the collected text files as one corpus. The byte tokenizer reads uncompressed text in
  // place. Other tokenizers, and compressed files and tables, which allow no random access, use the
  // token cache.
  void end_text() {
    if (text_.empty()) return;
    const bool in_place = dynamic_cast<const ByteTokenizer*>(&tokenizer_) != nullptr &&
                          std::none_of(text_.begin(), text_.end(), [](const SourceFile& file) {
                            return file.as.compressed || is_table(file.as.format);
                          });
    if (in_place) {
      const DocumentEnds ends = document_ends(options_.ends, tokenizer_);
      parts_.push_back(std::make_unique<TextSource>(text_, options_.text_key, options_.on_bad_record, ends,
                                                    options_.document_separator));
      counts_.ends.insert(shown(ends, &tokenizer_));
      add_identity(ends);
    } else {
      const std::string tokens = cached_tokens(paths_, text_, tokenizer_, options_);
      add_tokens({{tokens, tokens}, open_rondo_tokens});
      for (std::string& warning : cached_warnings(tokens)) counts_.warnings.push_back(std::move(warning));
    }
    text_.clear();
  }

  std::string_view paths_;
  const Tokenizer& tokenizer_;
  const TextOptions& options_;
  std::vector<SourceFile> text_;
  std::vector<std::unique_ptr<TokenSource>> parts_;
  SourceCounts counts_;  // what is around documents, and warnings of the token cache
  std::set<std::string> identities_;
};

}  // namespace

std::vector<NamedFile> name_files(const std::vector<SourceFile>& files) {
  // X.bin and X.idx are one data set, and so are X.ds and its companion files. X.bin or X.ds
  // represents the set if it is listed, otherwise the first companion does.
  std::set<std::string> present, represented;
  for (const SourceFile& file : files) present.insert(file.path);
  std::vector<NamedFile> named;
  for (const SourceFile& file : files) {
    NamedFile data_set = name_file(file);
    const bool companion = data_set.file.path != file.path;
    if (companion && (present.contains(data_set.file.path) || !represented.insert(data_set.file.path).second))
      continue;
    named.push_back(std::move(data_set));
  }
  return named;
}

std::unique_ptr<TokenSource> open_source(std::string_view paths, const Tokenizer& tokenizer,
                                         const TextOptions& options) {
  const SelectedFiles selected = select_files(paths, options.text_key);
  Opener opener(paths, tokenizer, options);
  for (NamedFile& named : name_files(selected.files)) opener.add(std::move(named));
  std::unique_ptr<JoinedSource> joined = opener.take({.skipped_hidden = selected.skipped_hidden,
                                                      .skipped_binary = selected.skipped_binary,
                                                      .skipped_special = selected.skipped_special,
                                                      .notes = selected.notes,
                                                      .warnings = selected.warnings});
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

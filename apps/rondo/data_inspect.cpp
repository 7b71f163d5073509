// `rondo data inspect FILE... [--verify] [--documents N]`. Results go to stdout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/rondo/data_flags.h"
#include "datasets/select_files.h"
#include "datasets/text_source.h"
#include "datasets/token_files/rondo_source.h"
#include "datasets/tokenizer/tokenizer.h"
#include "support/error.h"
#include "support/flags/flags.h"
#include "support/printable.h"

namespace rondo {
namespace {

constexpr std::int64_t kShownTokens = 16;
constexpr std::int64_t kShownText = 48;  // tokens
constexpr std::int64_t kScannedTokens = std::int64_t{1} << 20;
constexpr std::int64_t kScannedBytes = std::int64_t{4} << 20;

// Escapes names and texts, which come from foreign files.
void line(const std::string& text) { fmt::print("{}\n", printable(text)); }
void row(const char* label, const std::string& value) { line(fmt::format("  {:<12}{}", label, value)); }

struct InspectOptions {
  bool verify = false;
  std::int64_t documents = 3;  // number of documents to show
  std::string tokenizer;
  DocumentFlags text;
};

// Returns the text in quotes and on one line.
std::string shown_text(const Tokenizer& tokenizer, const std::vector<std::int64_t>& ids) {
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  std::string text;
  tokenizer.decode(narrow, text);
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// `ids`: the first of `length`. Without a tokenizer (nullptr) shows only ids. `part`: which part of
// the document; "": all of it.
void show_document(std::int64_t document, std::int64_t length, const std::vector<std::int64_t>& ids,
                   const Tokenizer* tokenizer, const std::string& part = "") {
  const std::int64_t shown = std::min(length, kShownTokens);
  row(fmt::format("document {}", document).c_str(),
      fmt::format("{} tokens{}: {}{}", length, part, fmt::join(ids.begin(), ids.begin() + shown, " "),
                  shown < length ? " ..." : ""));
  if (tokenizer != nullptr) row("", shown_text(*tokenizer, ids) + (std::ssize(ids) < length ? " ..." : ""));
}

// Shows the first `most` documents.
void show_documents(TokenSource& source, std::int64_t most, const Tokenizer* tokenizer) {
  std::vector<std::int64_t> ids;
  for (std::int64_t document = 0; document < std::min(most, source.documents()); ++document) {
    const std::int64_t length = source.tokens(document);
    ids.resize(static_cast<std::size_t>(std::min(length, kShownText)));
    source.read(document, 0, std::ssize(ids), ids.data());
    show_document(document, length, ids, tokenizer);
  }
}

// Shows the first `most` documents of text as a tokenizer encodes them.
void show_documents(Corpus& corpus, std::int64_t most, const Tokenizer& tokenizer, const DocumentEnds& ends) {
  std::vector<std::int32_t> encoded;
  for (std::int64_t i = 0; i < std::min(most, std::ssize(corpus.documents())); ++i) {
    const Document& document = corpus.documents()[static_cast<std::size_t>(i)];
    encoded.clear();
    if (ends.begin) encoded.push_back(*ends.begin);
    const bool whole = document.bytes <= kScannedBytes;
    tokenizer.encode(corpus.read(document, 0, std::min(document.bytes, kScannedBytes)), encoded);
    if (ends.end && whole) encoded.push_back(*ends.end);
    const std::int64_t length = std::ssize(encoded);
    show_document(i, length, {encoded.begin(), encoded.begin() + std::min(length, kShownText)}, &tokenizer,
                  whole ? "" : fmt::format(" in its first {} MiB", kScannedBytes >> 20));
  }
}

// Returns the tokenizer of the file, or nullptr if it is unknown.
std::unique_ptr<Tokenizer> tokenizer_of(const TokenFile& file, const std::string& given) {
  if (given.empty()) {
    auto bytes = std::make_unique<ByteTokenizer>();
    return file.tokenizer() == bytes->name() ? std::move(bytes) : nullptr;
  }
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(given);
  if (!file.tokenizer().empty() && file.tokenizer() != tokenizer->name())
    throw Error(ExitCode::data, fmt::format("{}: written with the tokenizer {}, but --tokenizer {} is {}",
                                            file.path(), file.tokenizer(), given, tokenizer->name()));
  return tokenizer;
}

void show_ids(TokenFile& file, bool all) {
  const bool header = dynamic_cast<RondoTokens*>(&file) != nullptr;
  const IdRange range = file.id_range(all ? std::numeric_limits<std::int64_t>::max() : kScannedTokens);
  if (range.most < 0) return;
  const bool part = !header && !all && file.total_tokens() > kScannedTokens;
  row("ids",
      fmt::format("{} to {}{}", range.least, range.most,
                  part ? fmt::format(" in the first {} tokens; --verify reads all", kScannedTokens) : ""));
}

void show_ends(const TokenFile& file, const Tokenizer* tokenizer) {
  const auto ends = file.ends();
  if (!ends) return row("ends", "as stored; the format does not say");
  const auto* rondo = dynamic_cast<const RondoTokens*>(&file);
  const auto special_tokens = rondo == nullptr ? std::nullopt : rondo->special_tokens();
  const auto id = [](const std::optional<std::int32_t>& token) {
    return token ? fmt::to_string(*token) : "none";
  };
  row("ends", fmt::format("{} ({}, {}){}", shown(*ends, tokenizer), id(ends->begin), id(ends->end),
                          special_tokens ? "; " + shown(*special_tokens, rondo->spelled()) : ""));
}

// Encodes the documents of text, only the first ones without options.verify, to count control
// tokens.
void show_ends(Corpus& corpus, const Tokenizer& tokenizer, const InspectOptions& options) {
  std::string line = shown(document_ends(options.text.ends, tokenizer), &tokenizer);
  if (!tokenizer.control_tokens().empty()) {
    std::int64_t spelled = 0, bytes = 0;
    std::vector<std::int32_t> ids;
    std::size_t count = 0;
    for (; count < corpus.documents().size() && (options.verify || bytes < kScannedBytes); ++count) {
      const Document& document = corpus.documents()[count];
      ids.clear();
      spelled += tokenizer.encode(corpus.read(document, 0, document.bytes), ids);
      bytes += document.bytes;
    }
    line += "; " + shown(tokenizer.special_tokens(), spelled);
    if (count < corpus.documents().size())
      line += fmt::format(" in the first {} documents; --verify reads all", count);
  }
  row("ends", line);
}

// Returns the number of documents.
std::int64_t inspect_tokens(TokenFile& file, const InspectOptions& options) {
  line(file.path());
  row("format", file.format());
  row("tokenizer", file.tokenizer().empty() ? "unknown" : file.tokenizer());
  if (const auto* rondo = dynamic_cast<RondoTokens*>(&file)) {
    const TokenFileHeader& header = rondo->header();
    row("fingerprint", fmt::format("{:016x}", header.tokenizer_fingerprint));
  }
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(file, options.tokenizer);
  show_ends(file, tokenizer.get());
  row("token", fmt::format("{} ({} bytes)", name_of(file.id_type()), bytes_of(file.id_type())));
  row("documents", fmt::to_string(file.documents()));
  row("tokens", fmt::to_string(file.total_tokens()));
  show_ids(file, options.verify);
  show_documents(file, options.documents, tokenizer.get());
  if (options.verify) {
    file.verify();
    row("verified", "whole");
  }
  return file.documents();
}

// Returns the number of documents.
std::int64_t inspect_text(const SourceFile& file, const InspectOptions& options) {
  const auto tokenizer =
      load_tokenizer(options.tokenizer.empty() ? "bytes" : options.tokenizer, options.text.control_tokens());
  const ByteTokenizer bytes_tokenizer;
  const bool is_bytes = tokenizer->name() == bytes_tokenizer.name();
  const DocumentEnds ends = document_ends(is_bytes ? options.text.ends : EndNames{}, bytes_tokenizer);
  TextSource source(std::vector<SourceFile>{file}, options.text.text_key, options.text.bad_record(), ends,
                    options.text.separator);
  const SourceCounts counts = source.counts();
  line(file.path);
  row("format", fmt::format("{}{}", name_of(file.as.format), file.as.compressed ? ", compressed" : ""));
  if (is_table(file.as.format))
    for (const auto& [label, value] : open_table(file.path, options.text.text_key)->facts())
      row(label.c_str(), value);
  for (const std::string& warning : counts.warnings) row("skipped", warning);
  if (counts.skipped_empty > 0) row("skipped", fmt::format("{} empty", counts.skipped_empty));
  std::int64_t bytes = 0;
  for (std::int64_t document = 0; document < source.documents(); ++document)
    bytes += source.tokens(document) - ends.count();
  row("documents", fmt::to_string(source.documents()));
  row("bytes", fmt::to_string(bytes));
  show_ends(source.corpus(), *tokenizer, options);
  if (is_bytes)
    show_documents(source, options.documents, &bytes_tokenizer);
  else
    show_documents(source.corpus(), options.documents, *tokenizer,
                   document_ends(options.text.ends, *tokenizer));
  return source.documents();
}

}  // namespace

int run_data_inspect(const Arguments& args) {
  std::vector<std::string> words;
  InspectOptions options;
  Flags flags("data inspect",
              "Prints the contents of token files (Rondo, Megatron-LM, datatrove, llm.c), text, *.jsonl, "
              "Parquet,\nArrow IPC and *.packed: format, columns, compression, width, tokenizer, documents, "
              "tokens, ids, and\nthe first documents, as text if their tokenizer is known.",
              "Exit code: 0 no damage found, 2 usage, 4 a file is missing or damaged.");
  flags.positional("PATH...", flag::append(&words), "files, folders and globs", Need::required);
  flags.toggle("--verify", &options.verify,
               "read everything: checksums if the format has them, the whole index, every id");
  flags.value("--documents", "N", flag::amount(&options.documents, 0),
              "number of documents to show (default 3)");
  flags.value("--tokenizer", "PATH", flag::text(&options.tokenizer),
              "tokenizer file or its folder: shows the text of token files, and the tokens of text");
  options.text.add_to(flags);
  if (!flags.read(args)) return 0;
  std::map<std::string, std::int64_t> files;  // by format
  std::int64_t documents = 0;
  for (const std::string& paths : words) {
    const SelectedFiles selected = select_files(paths, options.text.text_key);
    for (const std::string& note : selected.notes) line(note);
    for (const std::string& warning : selected.warnings) line("warning: " + warning);
    for (const NamedFile& named : name_files(selected.files)) {
      if (named.open == nullptr) {
        documents += inspect_text(named.file, options);
        ++files[name_of(named.file.as.format)];
      } else {
        const auto file = named.open(named.file, {});
        documents += inspect_tokens(*file, options);
        ++files[file->format()];
      }
    }
  }
  std::vector<std::string> counts;
  for (const auto& [format, count] : files) counts.push_back(fmt::format("{} of {}", count, format));
  if (files.size() > 1 || (!files.empty() && files.begin()->second > 1))
    line(fmt::format("total: files: {}; documents: {}", fmt::join(counts, ", "), documents));
  return 0;
}

}  // namespace rondo

// `rondo data inspect FILE... [--verify] [--documents N]`. Results go to stdout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "apps/data_commands.h"
#include "support/flags/flags.h"
#include "trainer/data/text_source.h"
#include "trainer/data/token_files/rondo_source.h"

namespace rondo {
namespace {

constexpr std::int64_t kShownTokens = 16;
constexpr std::int64_t kScannedTokens = std::int64_t{1} << 20;

void row(const char* label, const std::string& value) { fmt::print("  {:<12}{}\n", label, value); }

void show_documents(TokenSource& source, std::int64_t most) {
  std::vector<std::int64_t> ids;
  for (std::int64_t document = 0; document < std::min(most, source.documents()); ++document) {
    const std::int64_t length = source.tokens(document), shown = std::min(length, kShownTokens);
    ids.resize(static_cast<std::size_t>(shown));
    source.read(document, 0, shown, ids.data());
    row(fmt::format("document {}", document).c_str(),
        fmt::format("{} tokens: {}{}", length, fmt::join(ids, " "), shown < length ? " ..." : ""));
  }
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

void inspect_tokens(TokenFile& file, bool verify, std::int64_t documents) {
  fmt::print("{}\n", file.path());
  row("format", file.format());
  row("tokenizer", file.tokenizer().empty() ? "unknown" : file.tokenizer());
  if (const auto* rondo = dynamic_cast<RondoTokens*>(&file)) {
    const TokenFileHeader& header = rondo->header();
    row("fingerprint", fmt::format("{:016x}", header.tokenizer_fingerprint));
    row("bos, eos", fmt::format("{}, {}", header.bos < 0 ? "none" : fmt::to_string(header.bos), header.eos));
  }
  row("token", fmt::format("{} ({} bytes)", name_of(file.id_type()), bytes_of(file.id_type())));
  row("documents", fmt::to_string(file.documents()));
  row("tokens", fmt::to_string(file.total_tokens()));
  show_ids(file, verify);
  show_documents(file, documents);
  if (!verify) return;
  file.verify();
  row("verified", "whole");
}

void inspect_text(const SourceFile& file, std::int64_t documents) {
  TextSource source(std::vector<SourceFile>{file});
  const SourceCounts counts = source.counts();
  fmt::print("{}\n", file.path);
  row("format", file.path.ends_with(".packed")  ? "packed corpus"
                : file.path.ends_with(".jsonl") ? "JSONL"
                                                : "text");
  if (counts.skipped_binary > 0) row("skipped", "binary: it has a NUL in its first 8 KiB");
  if (counts.skipped_empty > 0) row("skipped", fmt::format("{} empty", counts.skipped_empty));
  std::int64_t bytes = 0;
  for (std::int64_t document = 0; document < source.documents(); ++document)
    bytes += source.tokens(document) - 2;
  row("documents", fmt::to_string(source.documents()));
  row("bytes", fmt::to_string(bytes));
  show_documents(source, documents);
}

}  // namespace

int run_data_inspect(const Arguments& args) {
  std::vector<std::string> words;
  std::int64_t documents = 3;
  bool verify = false;
  Flags flags(
      "data inspect",
      "What is in token files (Rondo, Megatron-LM, datatrove, llm.c), text, *.jsonl and *.packed: format, "
      "width,\ntokenizer, documents, tokens, ids, and the first documents.",
      "Exit code: 0 whole as far as was looked, 2 usage, 4 a file is missing or damaged.");
  flags.positional("PATH...", flag::append(&words), "files, folders and globs", Need::required);
  flags.toggle("--verify", &verify,
               "read everything: checksums where the format has them, the whole index, every id");
  flags.value("--documents", "N", flag::amount(&documents, 0), "how many documents to show, default 3");
  if (!flags.read(args)) return 0;
  for (const std::string& paths : words)
    for (const NamedFile& named : recognise_files(find_files(paths).files)) {
      if (named.open == nullptr) {
        inspect_text(named.file, documents);
      } else {
        inspect_tokens(*named.open(named.file, {}), verify, documents);
      }
    }
  return 0;
}

}  // namespace rondo

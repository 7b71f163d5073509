// `rondo data tokenize`: progress goes to stderr, the list of written files to stdout.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/commands.h"
#include "apps/rondo/data_flags.h"
#include "datasets/select_files.h"
#include "datasets/tokenize.h"
#include "datasets/tokenizer/document_ends.h"
#include "support/flags/flags.h"
#include "support/log.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

// Progress: one line that is overwritten on a terminal, else a line every few seconds.
class ProgressLine {
 public:
  void show(const TokenizeProgress& p) {
    const auto now = Clock::now();
    if (!terminal_ && now - shown_ < std::chrono::seconds(5)) return;
    shown_ = now;
    const std::string line = "tokenize: " + progress_text(p, seconds());
    std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
  }
  void clear() const {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

struct TokenizerOptions {
  std::string path;  // or "bytes"
  SpecialTokens special_tokens = SpecialTokens::text;
};

// Parses the arguments. Returns false after printing --help.
bool read_options(const Arguments& args, TokenizeOptions& options, TokenizerOptions& tokenizer) {
  std::vector<std::string> inputs;
  DocumentFlags documents;
  std::int64_t threads = 0;
  Flags flags(
      "data tokenize",
      "Converts text, JSONL or packed corpora, compressed (*.gz, *.zst) or not, Parquet and Arrow IPC to "
      "a\ntoken file that training maps into memory. Each document is stored as --document-begin, its "
      "tokens\nand --document-end.",
      "A killed command can be repeated: finished parts (in .NAME.tokens.parts) are kept. The output "
      "has\nthe same bytes for any number of threads. Until the end the parts double the disk space.\n\nExit "
      "code: 0 done, 2 usage, 4 data or tokenizer, 6 the output cannot be written, 9 disk full.");
  flags.value("--tokenizer", "bytes|PATH", flag::text(&tokenizer.path),
              "a tokenizer's file, its folder, or bytes", Need::required);
  flags.value("--input", "PATHS", flag::append(&inputs),
              "files, folders and globs, separated by commas; may be repeated", Need::required);
  flags.value("--output", "NAME.tokens", flag::text(&options.output), "file to write; must not exist",
              Need::required);
  documents.add_to(flags);
  flags.value("--threads", "N", flag::amount(&threads, 1), "number of threads (default: all cores)");
  flags.value("--shard-size", "N", flag::amount(&options.shard_tokens, 1),
              "maximum tokens per file, such as 1G: NAME-00000-of-00002.tokens ...");
  flags.value("--part-size", "BYTES", flag::amount(&options.part_bytes, 1),
              "bytes of text per part, the most that a kill loses per thread (default 64 MiB)");
  if (!flags.read(args)) return false;
  options.text_key = documents.text_key;
  options.on_bad_record = documents.bad_record();
  options.ends = documents.ends;
  options.document_separator = documents.separator;
  tokenizer.special_tokens = documents.control_tokens();
  options.input = fmt::format("{}", fmt::join(inputs, ","));
  options.threads = static_cast<int>(std::min<std::int64_t>(threads, 1024));
  return true;
}

}  // namespace

int run_data_tokenize(const Arguments& args) {
  TokenizeOptions options;
  TokenizerOptions of_tokenizer;
  if (!read_options(args, options, of_tokenizer)) return 0;
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(of_tokenizer.path, of_tokenizer.special_tokens);
  if (const std::string notice = tokenizer_notice(of_tokenizer.path); !notice.empty()) log_info(notice);
  const SelectedFiles selected = select_files(options.input, options.text_key);
  options.files = selected.files;
  for (const std::string& note : selected.notes) log_info(note);
  for (const std::string& warning : selected.warnings) log_warning(warning);

  ProgressLine progress;
  const TokenizeResult result =
      tokenize(options, *tokenizer, [&](const TokenizeProgress& done) { progress.show(done); });
  progress.clear();
  const double seconds = std::max(progress.seconds(), 1e-3);
  std::fputs(fmt::format("{} tokens in {} documents from {} of text, in {:.1f} s ({}/s)\n", result.tokens,
                         result.documents, size_text(result.bytes), seconds,
                         size_text(static_cast<std::int64_t>(static_cast<double>(result.bytes) / seconds)))
                 .c_str(),
             stdout);
  fmt::print(
      "documents: {}{}\n", shown(document_ends(options.ends, *tokenizer), tokenizer.get()),
      tokenizer->control_tokens().empty() ? "" : "; " + shown(of_tokenizer.special_tokens, result.spelled));
  if (result.dropped > 0)
    fmt::print("left out: {} bytes or characters that have no token in the vocabulary\n", result.dropped);
  if (result.kept_parts > 0) fmt::print("{} parts of an earlier run kept\n", result.kept_parts);
  for (const std::string& warning : result.warnings) log_warning(warning);
  const std::int64_t binary = selected.skipped_binary + result.skipped_binary;
  if (selected.skipped_hidden + binary + selected.skipped_special + result.skipped_empty +
          result.skipped_bad >
      0)
    fmt::print("skipped: {} binary, {} empty, {} hidden, {} special, {} bad records\n", binary,
               result.skipped_empty, selected.skipped_hidden, selected.skipped_special, result.skipped_bad);
  for (const std::string& file : result.files) fmt::print("{}\n", file);
  return 0;
}

}  // namespace rondo

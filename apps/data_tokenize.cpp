// `rondo data tokenize`: progress goes to stderr, what was made to stdout.
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "apps/data_commands.h"
#include "apps/flag_reader.h"
#include "support/error.h"
#include "support/text/size_text.h"
#include "trainer/data/tokenize.h"
#include "trainer/tokenizer/tokenizer.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHelp =
    "rondo data tokenize --tokenizer bytes|PATH --input PATHS --output NAME.tokens [flags]\n\n"
    "Text to a token file that training maps into memory. Every document is stored as BOS, its tokens, "
    "EOS.\n\n"
    "  --tokenizer  bytes, a tokenizer.json, or a folder that holds one\n"
    "  --input      files, folders and globs, separated by commas: text, *.jsonl (field \"text\"), "
    "*.packed;\n"
    "               may be given again\n"
    "  --output     the file to write; it must not exist\n"
    "  --threads    default: all cores\n"
    "  --shard-size end a file after so many tokens (at a document), as in 1G: NAME-00000-of-00002.tokens "
    "...\n"
    "  --part-size  bytes of text in a part, 64M: what a kill costs each thread\n\n"
    "Kill it and give the same command again: finished parts (in .NAME.tokens.parts) are kept, and the "
    "output has\n"
    "the same bytes, whatever the number of threads. The parts take as much disk again until the end.\n\n"
    "Exit code: 0 done, 2 usage, 4 data or tokenizer, 6 the output cannot be written, 9 disk full.";

// XXH3-64 of the file that load_tokenizer reads.
std::uint64_t fingerprint_of(const std::string& tokenizer) {
  if (tokenizer == "bytes") return 0;
  const bool folder = std::filesystem::is_directory(tokenizer);
  std::ifstream in(folder ? tokenizer + "/tokenizer.json" : tokenizer, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return XXH3_64bits(text.data(), text.size());
}

// One line that is written over on a terminal; elsewhere a line every few seconds.
class ProgressLine {
 public:
  void show(const TokenizeProgress& p) {
    const auto now = Clock::now();
    if (!terminal_ && now - shown_ < std::chrono::seconds(5)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(p.bytes - p.kept_bytes) / std::max(seconds, 1e-3);
    std::string line =
        fmt::format("tokenize: {} of {}, {} tokens, {}/s", size_text(p.bytes), size_text(p.total_bytes),
                    p.tokens, size_text(static_cast<std::int64_t>(rate)));
    if (p.joining) {
      line += ", writing the output";
    } else if (rate > 0 && p.bytes < p.total_bytes) {
      line += fmt::format(", {:.0f} s left", static_cast<double>(p.total_bytes - p.bytes) / rate);
    }
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

TokenizeOptions options_of(const FlagReader& flags) {
  TokenizeOptions options;
  for (const std::string& paths : flags.values.contains("--input") ? flags.values.at("--input") : Arguments{})
    options.input += (options.input.empty() ? "" : ",") + paths;
  options.output = flags.text("--output", "");
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.threads = static_cast<int>(std::min<std::int64_t>(flags.number("--threads", 1, cores), 1024));
  options.shard_tokens = flags.number("--shard-size", 1, 0);
  options.part_bytes = flags.number("--part-size", 1, options.part_bytes);
  if (!flags.words.empty())
    throw Error(ExitCode::usage,
                fmt::format("data tokenize: \"{}\" belongs to no flag; paths follow --input, separated "
                            "by commas",
                            flags.words[0]));
  for (const char* needed : {"--tokenizer", "--input", "--output"})
    if (flags.text(needed, "").empty())
      throw Error(ExitCode::usage,
                  fmt::format("data tokenize: {} is missing; `rondo data tokenize --tokenizer bytes "
                              "--input FOLDER --output NAME.tokens`",
                              needed));
  return options;
}

}  // namespace

int run_data_tokenize(const Arguments& args) {
  const FlagReader flags("data tokenize", args,
                         {"--tokenizer", "--input", "--output", "--threads", "--shard-size", "--part-size"},
                         {});
  if (flags.has("--help")) return std::puts(kHelp), 0;
  TokenizeOptions options = options_of(flags);
  const std::string path = flags.text("--tokenizer", "");
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(path);
  options.tokenizer_fingerprint = fingerprint_of(path);

  ProgressLine progress;
  const TokenizeResult made =
      tokenize(options, *tokenizer, [&](const TokenizeProgress& done) { progress.show(done); });
  progress.clear();
  const double seconds = std::max(progress.seconds(), 1e-3);
  std::fputs(fmt::format("{} tokens in {} documents from {} of text, in {:.1f} s ({}/s)\n", made.tokens,
                         made.documents, size_text(made.bytes), seconds,
                         size_text(static_cast<std::int64_t>(static_cast<double>(made.bytes) / seconds)))
                 .c_str(),
             stdout);
  if (made.kept_parts > 0) fmt::print("{} parts of an earlier run kept\n", made.kept_parts);
  const std::int64_t skipped =
      made.skipped_hidden + made.skipped_binary + made.skipped_special + made.skipped_empty;
  if (skipped > 0)
    fmt::print("skipped: {} binary, {} empty, {} hidden, {} special\n", made.skipped_binary,
               made.skipped_empty, made.skipped_hidden, made.skipped_special);
  for (const std::string& file : made.files) fmt::print("{}\n", file);
  return 0;
}

}  // namespace rondo

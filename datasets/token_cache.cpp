// The name of the file contains a hash of all inputs, so a lookup costs one stat per text file and
// at most 256 reads, and nothing is ever invalidated. Each process verifies the checksums, which is
// much faster than tokenizing. The name is no secret: a user who can write next to the data could
// choose the tokens. So files and folders of other users are refused. Options with the effect of
// earlier versions add nothing to the hash, so that their files are used. The process that
// tokenizes holds a lock on the folder. It checks for the file again after it has the lock, since a
// process of another node may have been first. The file appears under its name only when it is
// complete, so waiting processes need no lock. A file system without locks is accepted, as in
// PartsFolder. What was left out is kept in X.tokens.warnings, so that every run on the tokens says
// so, not the first one alone.
#include "datasets/token_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "datasets/documents/order.h"
#include "datasets/token_files/rondo_source.h"
#include "datasets/token_files/token_writer.h"
#include "datasets/tokenize.h"
#include "support/error.h"
#include "support/files/atomic_file.h"
#include "support/files/file.h"
#include "support/files/folder_lock.h"
#include "support/files/owner.h"
#include "support/log.h"
#include "support/printable.h"
#include "support/stop_signal.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// Returns the path of the first entry; of a glob, the part before the pattern.
fs::path named_by(std::string_view paths) {
  std::string first = split_paths(paths).front();
  std::error_code ignored;
  if (!fs::exists(first, ignored)) first = first.substr(0, first.find_first_of("*?["));
  fs::path path = fs::absolute(first.empty() ? "." : first).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// Returns whether the suffix, with its case, stands for the format.
bool is_promised(const SourceFile& file) {
  std::string_view name = file.path;
  for (const std::string_view suffix : {".gz", ".zst"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  const FileFormat promised = name.ends_with(".jsonl")    ? FileFormat::jsonl
                              : name.ends_with(".packed") ? FileFormat::packed
                                                          : FileFormat::text;
  return file.as.format == promised || file.as.format == FileFormat::unknown ||
         file.as.format == FileFormat::binary;  // skipped
}

std::uint64_t hash_of(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                      const TextOptions& options) {
  const char* skip = options.on_bad_record == OnBadRecord::skip ? " skip" : "";
  std::uint64_t hash =
      stable_hash(fmt::format("{} {} {}{}", kTokenVersion, tokenizer.name(), options.text_key, skip));
  hash ^= files_hash(files);
  if (const DocumentEnds ends = document_ends(options.ends, tokenizer); !is_standard(ends, tokenizer))
    hash =
        mix64(hash ^ stable_hash(fmt::format("ends {} {}", ends.begin.value_or(-1), ends.end.value_or(-1))));
  if (const std::vector<std::int32_t> control = tokenizer.control_tokens();
      !control.empty() && tokenizer.special_tokens() == SpecialTokens::text)
    hash = mix64(hash ^ stable_hash(fmt::format("control tokens {} are text", fmt::join(control, " "))));
  // A format that the name does not promise, such as JSON lines in *.json.
  for (const SourceFile& file : files)
    if (const char* format = name_of(file.as.format); !is_promised(file))
      hash = mix64(hash ^ stable_hash(fmt::format("{} {}", file.id, format)));
  if (!options.document_separator.empty())
    hash = mix64(hash ^ stable_hash("separator " + options.document_separator));
  return mix64(hash);
}

void make_folder(const fs::path& folder, std::string_view paths) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (!error) return;
  throw Error(
      ExitCode::environment,
      fmt::format("the text of \"{}\" is tokenized once, and its tokens cannot be kept in {} ({}): set "
                  "training.token_cache to a folder that can be written, or run `rondo data tokenize`",
                  paths, folder.string(), error.message()));
}

fs::path warnings_path(const fs::path& tokens) { return tokens.string() + ".warnings"; }

void make_tokens(std::string_view paths, const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                 const TextOptions& options, const fs::path& output) {
  log_info(fmt::format("data: tokenizing the text of {} once, into {}; files: {}", paths, output.string(),
                       files.size()));
  TokenizeOptions job;
  job.input = paths;
  job.files = files;
  job.output = output.string();
  job.text_key = options.text_key;
  job.on_bad_record = options.on_bad_record;
  job.ends = options.ends;
  job.document_separator = options.document_separator;
  job.may_be_empty = true;
  const Stopwatch time;
  double last_report_s = 0;
  const TokenizeResult result = tokenize(job, tokenizer, [&](const TokenizeProgress& progress) {
    if (time.seconds() - last_report_s < 10) return;
    last_report_s = time.seconds();
    log_info("data: " + progress_text(progress, last_report_s));
  });
  log_info(fmt::format("data: tokenized in {:.1f} s; tokens: {}, documents: {}", time.seconds(),
                       result.tokens, result.documents));
  std::vector<std::string> warnings = result.warnings;
  if (result.dropped > 0)
    warnings.push_back(fmt::format("{} bytes or characters have no token in the vocabulary and are left out",
                                   result.dropped));
  if (!warnings.empty())
    replace_file(warnings_path(output), fmt::format("{}\n", fmt::join(warnings, "\n")), FileUse::output);
}

// Throws Error(environment) if `path` exists and belongs to a user other than this one, root and
// the owner of the text.
void require_own(const fs::path& path, const std::vector<SourceFile>& files) {
  const std::optional<uid_t> owner = owner_of(path);
  if (!owner || is_own(path) || owner == owner_of(files.front().path)) return;
  throw Error(ExitCode::environment,
              fmt::format("{} decides what is trained, and belongs to the user {}, not to you or to the "
                          "owner of the text: remove it, or set training.token_cache to a folder of your own",
                          path.string(), *owner));
}

// Returns what is wrong with a token file; "" for an intact one. Throws FileError.
std::string damage_of(const fs::path& tokens) {
  try {
    RondoTokens({.path = tokens.string(), .id = tokens.string()}, {}).verify();
    return "";
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return error.what();
  }
}

// Sleeps half a second, since thousands of ranks may poll a file server.
void pause() {
  if (stop_requested()) throw Error(ExitCode::peer, "stopped while waiting for the tokens of the text");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

}  // namespace

std::string cached_tokens(std::string_view paths, const std::vector<SourceFile>& files,
                          const Tokenizer& tokenizer, const TextOptions& options) {
  const fs::path named = named_by(paths);
  const fs::path folder =
      options.token_cache.empty() ? named.parent_path() / ".rondo-tokens" : fs::path(options.token_cache);
  const fs::path output = folder / fmt::format("{}-{:016x}.tokens", named.filename().string(),
                                               hash_of(files, tokenizer, options));
  if (options.token_cache.empty()) require_own(folder, files);
  std::string damage;
  std::optional<fs::file_time_type> verified;
  // Reads a file once, until another takes its place. An error counts as absent: it is checked
  // again.
  const auto is_usable = [&] {
    std::error_code error;
    const fs::file_time_type written = fs::last_write_time(output, error);
    if (error) return false;
    if (written != verified) {
      require_own(output, files);
      damage = damage_of(output);
      verified = written;
    }
    return damage.empty();
  };
  while (!options.makes_cache && !is_usable()) pause();
  if (!options.makes_cache || is_usable()) return output.string();
  make_folder(folder, paths);
  std::optional<FolderLock> lock;
  while (!(lock = FolderLock::take(folder, FileUse::output)) && !is_usable()) pause();
  if (is_usable()) return output.string();
  if (!damage.empty()) {
    log_warning(fmt::format("data: the tokens of the text are made again: {}", damage));
    remove_file(output, FileUse::output);
  }
  make_tokens(paths, files, tokenizer, options, output);
  return output.string();
}

std::vector<std::string> cached_warnings(const std::string& tokens) {
  constexpr std::int64_t kMaxBytes = 1 << 20;
  const fs::path file = warnings_path(tokens);
  std::vector<std::string> warnings;
  if (!fs::exists(file)) return warnings;
  std::istringstream lines(read_file(file, kMaxBytes, FileUse::data));
  for (std::string line; std::getline(lines, line);) warnings.push_back(printable(line));
  return warnings;
}

}  // namespace rondo

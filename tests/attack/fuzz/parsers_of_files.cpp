// Parsers of files and of folders of files, one of which is mutated. What a checksum protects is
// sealed again, since an attacker would do so: the mark of a checkpoint, the header of a token
// file.
#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "checkpoint/catalog.h"
#include "checkpoint/committed.h"
#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/reader.h"
#include "config/dump.h"
#include "config/load.h"
#include "datasets/documents/corpus.h"
#include "datasets/select_files.h"
#include "datasets/tokenizer/bpe_tokenizer.h"
#include "launch/failure.h"
#include "runs/compare_runs.h"
#include "runs/follow_run.h"
#include "runs/live_view.h"
#include "runs/rank_runs.h"
#include "runs/report_page.h"
#include "runs/report_text.h"
#include "support/files/file.h"
#include "tests/attack/fuzz/parsers.h"
#include "tests/datasets/token_bytes.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::attack {
namespace {

namespace fs = std::filesystem;

// Another text in a file, as long as this lives.
class Replaced {
 public:
  Replaced(fs::path path, const std::string& text) : path_(std::move(path)), before_(text_of(path_)) {
    write_text(path_, text);
  }
  ~Replaced() { write_text(path_, before_); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  fs::path path_;
  std::string before_;
};

std::vector<std::string> default_config() {
  return {to_toml(load_config({})), to_toml(load_config({"--model.name=deepseek_v3"}))};
}

// Of two files that belong together the one that includes the other comes last by name.
void read_config(const Input& input) {
  fs::path last = input.file;
  for (const auto& entry : fs::directory_iterator(input.file.parent_path()))
    last = std::max(last, entry.path());
  const JobConfig config = load_config({"--job.config_file=" + last.string()});
  const fs::path again = fs::path(input.file).concat(".again");
  write_text(again, to_toml(config));
  JobConfig same = load_config({"--job.config_file=" + again.string()});
  fs::remove(again);
  same.job.config_file = config.job.config_file;
  must(same == config, "what is written reads back");
}

void read_checkpoint(const Input& input) {
  namespace cp = checkpoint;
  const fs::path folder = input.file.parent_path();
  std::optional<Replaced> mark;
  if (input.file.filename() == cp::kManifestFile)
    mark.emplace(folder / cp::kCommittedFile, cp::committed_text(input.text));
  cp::list(folder.parent_path());
  cp::newest_valid(folder.parent_path(), cp::Depth::sample);
  const bool valid = cp::verify(folder, cp::Depth::full).valid();
  cp::Reader reader(folder);
  for (const cp::TensorRecord& tensor : reader.manifest().tensors) {
    const std::int64_t elements = cp::elements_of(tensor.shape, tensor.dtype);
    const std::int64_t bytes = elements * cp::dtype_bytes(tensor.dtype);
    must(bytes <= reader.manifest().bytes(), "tensors lie in shards");
    std::vector<std::byte> out(static_cast<std::size_t>(bytes));
    reader.read(tensor.name, 0, elements, out);
  }
  must(valid || reader.manifest().bytes() == 0 || input.file.extension() == ".bin",
       "what reads whole is valid");
}

// Reads texts with one of eight tokenizers: the caches and automata of one take as long as ten
// files.
void use_tokenizer(TokenizerFile file, const Input& input) {
  if (input.number % 8 != 0) return;
  const BpeTokenizer tokenizer(std::move(file));
  std::vector<std::int32_t> ids;
  std::string text;
  for (const char* words : {"", "hello's 123 <|end|>\n\n  x", "\xff\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd"}) {
    ids.clear(), text.clear();
    tokenizer.encode(words, ids);
    for (const std::int32_t id : ids)
      must(id >= 0 && id < tokenizer.vocab_size(), "an id is below the vocabulary's size");
    tokenizer.decode(ids, text);
  }
}

void read_tokenizer(const Input& input) {
  use_tokenizer(read_tokenizer_file(input.file.parent_path()), input);
}

// Ranks are known by their number, which most mutations of the seed's 109 lines keep or change by a
// few.
void read_ranks(const Input& input) {
  constexpr std::size_t kLeast = 101;
  std::array<RankFamily, 16> families;
  for (std::size_t i = 0; i < families.size(); ++i)
    families[i] = {.name = "letters",
                   .ranks = kLeast + i,
                   .pattern = R"(\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+)",
                   .bos = "[BOS]",
                   .eos = "<|end|>"};
  use_tokenizer(read_tokenizer_file(input.file.parent_path(), families), input);
}

void read_tokens(const Input& input) {
  std::optional<Replaced> sealed;
  if (input.file.extension() == ".tokens" && input.text.size() >= kTokenHeaderBytes && input.number % 2 == 0)
    sealed.emplace(input.file, resealed(input.text));
  constexpr std::int64_t kMax = 1 << 14;
  std::vector<std::int64_t> ids(kMax);
  std::vector<SourceFile> files = find_files(input.file.parent_path().string()).files;
  for (SourceFile& file : files) file.as = recognise(file.path, "text");
  for (const NamedFile& named : name_files(files)) {
    if (named.open == nullptr) continue;  // it is taken for text now
    const auto file = named.open(named.file, {.size = 258, .owner = "byte"});
    file->id_range(kMax);
    for (std::int64_t document = 0; document < std::min<std::int64_t>(file->documents(), 1000); ++document) {
      file->id_hash(document);
      const std::int64_t tokens = file->tokens(document);
      must(tokens >= 0, "a document has no less than no token");
      file->read(document, 0, std::min(tokens, kMax), ids.data());
    }
    file->verify();
  }
}

void read_documents(const Input& input) {
  Corpus corpus(find_files(input.file.string()).files, "text",
                input.number % 2 == 0 ? OnBadRecord::stop : OnBadRecord::skip);
  std::size_t looked_at = 0;
  for (const Document& document : corpus.documents()) {
    if (++looked_at > 1000) break;
    const std::int64_t end = std::min<std::int64_t>(document.bytes, 1 << 20);
    must(std::ssize(corpus.read(document, 0, end)) == end, "a document has the bytes of its index");
  }
}

// The file alone, and in its folder.
void read_data_path(const Input& input) {
  try {
    const SelectedFiles alone = select_files(input.file.string(), "text");
    must(alone.files.size() == 1 && is_read(alone.files[0].as.format), "a file that is named is read");
  } catch (const Error& error) {
    must(error.code() == ExitCode::data, "or refused by what it is");
  }
  for (const SourceFile& file : select_files(input.file.parent_path().string(), "text").files)
    must(is_read(file.as.format), "what is selected is read");
}

void read_hugging_face_folder(const Input& input) {
  const hugging_face::Folder folder(input.file.parent_path());
  try {
    folder.check({});
    must(false, "tensors that nobody expects are told");
  } catch (const Error& error) {
    must(error.code() == ExitCode::checkpoint, "and are of the folder");
  }
}

void read_run_folder(const Input& input) {
  const fs::path folder = input.file.parent_path();
  RunFollower follower(folder);
  follower.look();
  live_view(follower.look(), 80, true);
  follower.has_ended();
  const RunRecord run = read_record(folder);
  must(!report_page({run, run}).empty() && !report_text({run, run}, 80, false).empty(), "a report has text");
  must(compare_runs(folder, folder, std::nullopt).equal(), "a run is equal to itself");
  rank_runs({&run.log, &run.log});
  config_rows({&run.log});
  speed_of(run.log.steps);
}

void read_error_file(const Input& input) {
  const auto error = launch::read_error_file(input.file);
  must(!error || error->message.size() <= 4 * 2000, "a message has a limit, escapes aside");
  must(launch::last_line_of(input.file).size() <= 4 * 400, "so has a line");
}

}  // namespace

std::vector<Parser> parsers_of_files() {
  using enum ExitCode;
  return {
      {.name = "config",
       .reads_files = true,
       .cost = 20,
       .refusals = {config},
       .read = read_config,
       .made = default_config},
      {.name = "checkpoint",
       .reads_files = true,
       .cost = 10,
       .refusals = {checkpoint},
       .read = read_checkpoint},
      {.name = "tokenizer", .reads_files = true, .cost = 5, .refusals = {data}, .read = read_tokenizer},
      {.name = "ranks", .reads_files = true, .refusals = {data}, .read = read_ranks},
      {.name = "tekken", .reads_files = true, .cost = 2, .refusals = {data}, .read = read_tokenizer},
      {.name = "sentencepiece", .reads_files = true, .refusals = {data}, .read = read_tokenizer},
      {.name = "tokens", .reads_files = true, .cost = 5, .refusals = {data}, .read = read_tokens},
      {.name = "documents", .reads_files = true, .cost = 2, .refusals = {data}, .read = read_documents},
      {.name = "tables", .reads_files = true, .cost = 2, .refusals = {data}, .read = read_documents},
      {.name = "data_path", .reads_files = true, .cost = 5, .refusals = {data}, .read = read_data_path},
      {.name = "hf_folder",
       .reads_files = true,
       .cost = 10,
       .refusals = {checkpoint},
       .read = read_hugging_face_folder},
      {.name = "run_folder", .reads_files = true, .cost = 40, .refusals = {data}, .read = read_run_folder},
      {.name = "error_file", .reads_files = true, .refusals = {}, .read = read_error_file},
  };
}

std::span<const Parser> parsers() {
  static const std::vector<Parser> all = [] {
    std::vector<Parser> both = parsers_of_text();
    for (Parser& parser : parsers_of_files()) both.push_back(std::move(parser));
    if (!RONDO_ARROW) std::erase_if(both, [](const Parser& parser) { return parser.name == "tables"; });
    return both;
  }();
  return all;
}

void must(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("it does not hold: ") + what);
}

}  // namespace rondo::attack

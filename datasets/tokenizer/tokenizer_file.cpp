// Collects every unsupported setting with its path, because ids that are nearly right would train a
// wrong model. The normalizer and the pre_tokenizer come first, since they decide whether the model
// encodes bytes or characters. The fingerprint covers what decides ids, and the ids of BOS and EOS:
// if any of them changes, the data set is another one.
#include "datasets/tokenizer/tokenizer_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "datasets/tokenizer/normalize/read_normalizer.h"
#include "datasets/tokenizer/rank_file.h"
#include "datasets/tokenizer/read_model.h"
#include "datasets/tokenizer/sentencepiece.h"
#include "datasets/tokenizer/split/split_stages.h"
#include "datasets/tokenizer/tekken.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/files/hub_advice.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kTokenizerNames = {"tokenizer.json", "tiktoken.model",
                                                             "tokenizer.model", kTekken};

// Older folders name BOS and EOS there.
constexpr std::string_view kSpecialTokensMap = "special_tokens_map.json";

// Returns the special token that a template puts before a text, "" without one. The first template
// of a Sequence counts.
std::string template_bos(const JsonView& processor, int depth) {
  const JsonView type = processor.at("type");
  if (type.text() == "Sequence") {
    std::string first;
    if (depth == kMaxNestedSteps) processor.refuse("is nested too deeply");
    if (depth < kMaxNestedSteps)
      for (const JsonView& step : processor.at("processors").items())
        if (const std::string bos = template_bos(step, depth + 1); first.empty()) first = bos;
    return first;
  }
  if (type.text() == "ByteLevel") return "";  // changes offsets, not ids
  if (type.text() == "RobertaProcessing" || type.text() == "BertProcessing") {
    const std::vector<JsonView> token = processor.at("cls").items();
    return token.empty() ? "" : token.front().text();
  }
  if (type.text() != "TemplateProcessing") {
    type.refuse(
        "is a post-processor that is not supported; it must be TemplateProcessing, ByteLevel, "
        "RobertaProcessing, BertProcessing or a Sequence of these");
    return "";
  }
  const std::vector<JsonView> single = processor.at("single").items();
  if (single.empty()) return "";
  const std::optional<JsonView> special = single.front().find("SpecialToken");
  return special ? special->at("id").text() : "";
}

// Returns the id of bos_token or eos_token: a string, or an object with a string "content".
std::optional<std::int32_t> configured_id(const JsonView& config, const std::string& key,
                                          const Vocabulary& ids, const TokenizerFile& file) {
  const std::optional<JsonView> value = config.find(key);
  if (!value) return std::nullopt;
  const JsonView name = value->raw().is_object() ? value->at("content") : *value;
  const auto found = ids.find(name.text());
  if (found == ids.end())
    name.refuse(
        fmt::format("is not a token of {} in the same folder", fs::path(file.path).filename().string()));
  return found->second;
}

void read_ends(const FormatEnds& ends, const Vocabulary& ids, TokenizerFile& file) {
  for (const std::string_view name : {kTokenizerConfig, kSpecialTokensMap}) {
    const JsonSource source{(fs::path(file.path).parent_path() / name).string()};
    std::error_code missing;
    if (!fs::exists(source.name, missing)) continue;
    const nlohmann::json document = parse_json(read_file(source.name, kMaxFileBytes, FileUse::data), source);
    const JsonView config(document, source);
    if (!file.bos) file.bos = configured_id(config, "bos_token", ids, file);
    if (!file.eos) file.eos = configured_id(config, "eos_token", ids, file);
    if (name == kTokenizerConfig) file.adds_bos = config.flag("add_bos_token", true);
    if (config.find("added_tokens_decoder")) break;  // transformers then reads no other file
  }
  const auto complete = [&](std::optional<std::int32_t>& id, const std::string& token) {
    if (id || token.empty()) return;  // a vocabulary may have an empty token
    if (const auto found = ids.find(token); found != ids.end()) id = found->second;
  };
  complete(file.bos, ends.bos);
  complete(file.eos, ends.eos);
}

// Hashes what decides ids, independent of how the file is written.
class MeaningHash {
 public:
  MeaningHash() { XXH3_64bits_reset(&state_); }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    XXH3_64bits_update(&state_, text.data(), text.size());
  }
  void add(std::int64_t number) { XXH3_64bits_update(&state_, &number, sizeof number); }
  std::uint64_t result() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

std::uint64_t fingerprint_of(const TokenizerFile& file, const Vocabulary& ids) {
  MeaningHash hash;
  std::map<std::int32_t, std::string_view> by_id;
  for (const auto& [token, id] : ids) by_id.emplace(id, token);
  for (const auto& [id, token] : by_id) {
    hash.add(std::int64_t{id});
    hash.add(token);
  }
  for (const std::size_t count : {ids.size(), file.model.merges.size(), file.added_tokens.size(),
                                  file.normalizer.size(), file.stages.size()})
    hash.add(static_cast<std::int64_t>(count));
  for (const BpeMerge& merge : file.model.merges)
    for (const std::int32_t id : {merge.left, merge.right, merge.merged}) hash.add(std::int64_t{id});
  for (const std::uint32_t rank : file.model.token_ranks) hash.add(std::int64_t{rank});
  for (const std::int32_t id : file.model.byte_ids) hash.add(std::int64_t{id});
  hash.add(std::int64_t{!file.model.whole_words.empty()});
  hash.add(std::int64_t{file.model.characters.has_value()});
  if (const auto& characters = file.model.characters) {
    hash.add(characters->prefix);
    hash.add(characters->suffix);
    hash.add(std::int64_t{characters->unknown.value_or(-1)});
    hash.add(std::int64_t{characters->fuse_unknown});
    hash.add(std::int64_t{characters->byte_fallback});
  }
  for (const AddedToken& token : file.added_tokens) {
    hash.add(token.content);
    for (const bool rule :
         {token.normalized, token.rules.single_word, token.rules.takes_left, token.rules.takes_right})
      hash.add(std::int64_t{rule});
  }
  for (const NormalizerStep& step : file.normalizer) hash.add(step.meaning);
  for (const SplitStage& stage : file.stages) hash.add(stage.meaning);
  hash.add(std::int64_t{file.bos.value_or(-1)});
  hash.add(std::int64_t{file.eos.value_or(-1)});
  return hash.result();
}

std::string file_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const std::vector<fs::path> files = tokenizer_files_in(path);
  return (files.empty() ? fs::path(path) / kTokenizerNames[0] : files[0]).string();
}

void read_stages(const JsonView& root, TokenizerFile& file) {
  if (const auto normalizer = root.find("normalizer")) file.normalizer = read_normalizer(*normalizer);
  if (const auto stages = root.find("pre_tokenizer")) file.stages = read_split_stages(*stages);
  for (NormalizerStep& step : file.normalizer) step.place = fmt::format("{}: {}", file.path, step.place);
  for (SplitStage& stage : file.stages) stage.place = fmt::format("{}: {}", file.path, stage.place);
}

Vocabulary read_json(const std::string& text, TokenizerFile& file, FormatEnds& ends,
                     std::vector<std::string>& problems) {
  const JsonSource thrown{file.path};
  const nlohmann::json document = parse_json(text, thrown);
  JsonView(document, thrown).object();
  const JsonSource source{.problems = &problems};
  const JsonView root(document, source);
  if (is_tekken(document)) return read_tekken(root, file, ends);
  if (const JsonView version = root.at("version"); version.raw() != "1.0")
    version.refuse("is not supported; it must be \"1.0\"");
  read_stages(root, file);
  const std::size_t before = problems.size();
  Vocabulary ids = read_model(root.at("model"), file);
  const bool has_model = problems.size() == before;
  if (const auto processor = root.find("post_processor")) ends.bos = template_bos(*processor, 0);
  if (const auto added = root.find("added_tokens")) read_added_tokens(*added, has_model, ids, file);
  return ids;
}

void throw_problems(const std::string& path, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  const bool is_one = problems.size() == 1;
  throw Error(ExitCode::data,
              fmt::format("{}: {}{}", path, is_one ? "" : "this tokenizer cannot be read:\n  ",
                          fmt::join(problems, "\n  ")));
}

}  // namespace

std::vector<fs::path> tokenizer_files_in(const fs::path& folder) {
  std::vector<fs::path> files, others;
  std::error_code error;
  for (const std::string_view name : kTokenizerNames)
    if (fs::exists(folder / name, error)) files.push_back(folder / name);
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".tiktoken") others.push_back(entry.path());
  std::sort(others.begin(), others.end());
  files.insert(files.end(), others.begin(), others.end());
  return files;
}

TokenizerFile read_tokenizer_file(const std::string& path, std::span<const RankFamily> families) {
  TokenizerFile file;
  file.path = file_of(path);
  std::error_code missing;
  if (!fs::exists(file.path, missing))
    throw Error(ExitCode::data,
                fmt::format("tokenizer \"{}\": no such file. Name a tokenizer.json, tiktoken.model, "
                            "tokenizer.model or tekken.json, a folder that holds one, or bytes "
                            "(training.tokenizer, --tokenizer){}",
                            file.path, hub_advice(file.path)));
  const std::string text = read_file(file.path, kMaxFileBytes, FileUse::data);
  if (text.starts_with(kGitLfsPointer))
    throw Error(ExitCode::data, fmt::format("{}: {}", file.path, kGitLfsAdvice));
  std::vector<std::string> problems;  // the file is named once, before all of them
  FormatEnds ends;
  Vocabulary ids;
  if (is_sentencepiece(text))
    ids = read_sentencepiece(text, file, ends, problems);
  else if (is_rank_text(text))
    ids = read_rank_file(text, families, file, ends, problems);
  else
    ids = read_json(text, file, ends, problems);
  if (file.model.merges.size() > kMaxMerges)
    problems.push_back(fmt::format("has more than {} merges", kMaxMerges));
  throw_problems(file.path, problems);
  read_ends(ends, ids, file);
  file.file_hash = XXH3_64bits(text.data(), text.size());
  file.fingerprint = fingerprint_of(file, ids);
  return file;
}

}  // namespace rondo

// Refuses every unsupported setting with its path, because ids that are nearly right would train a
// wrong model. Ids of added tokens are computed as the reference does and compared with those in
// the file. All 256 bytes need a token, so that any text can be encoded. The fingerprint covers the
// file's text and the ids of BOS and EOS: if any of them changes, the data set is another one.
#include "datasets/tokenizer/tokenizer_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "datasets/tokenizer/byte_level.h"
#include "datasets/tokenizer/split/split_stages.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFileBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxId = (1 << 21) - 1;

// Maps tokens, as the file writes them, to ids.
using Vocabulary = std::unordered_map<std::string, std::int32_t>;

void must_be_off(const JsonView& owner, const std::string& key) {
  const std::optional<JsonView> value = owner.find(key);
  if (!value || value->raw() == "" || value->raw() == false || value->raw() == 0.0) return;
  value->refuse("is not supported; it must be null");
}

Vocabulary read_vocabulary(const JsonView& vocab, TokenizerFile& file) {
  Vocabulary ids;
  for (const auto& [token, value] : vocab.object().items()) {
    const JsonView view = vocab.child(value, token);
    const auto id = static_cast<std::size_t>(view.integer(0, kMaxId));
    if (token.empty()) view.refuse("an empty token is not supported");
    if (id >= file.token_bytes.size()) file.token_bytes.resize(id + 1);
    if (!file.token_bytes[id].empty()) view.refuse("another token has this id");
    file.token_bytes[id] = bytes_of_token(token).value_or(token);
    ids.emplace(token, static_cast<std::int32_t>(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = ids.find(token_of_bytes(std::string(1, static_cast<char>(byte))));
    if (id == ids.end())
      throw Error(ExitCode::data,
                  fmt::format("{}: has no token for the byte {:#04x}; every byte needs one, written "
                              "in the alphabet of ByteLevel",
                              vocab.place(), byte));
    file.model.byte_ids[byte] = id->second;
  }
  return ids;
}

// Returns the pair of a merge "left right" or ["left", "right"]; two empty strings for
// anything else.
std::pair<std::string, std::string> merged_pair(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (!merge.is_string()) return {};
  const auto& text = merge.get_ref<const std::string&>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const JsonView& merges, const Vocabulary& ids, TokenizerFile& file) {
  if (!merges.raw().is_array()) merges.refuse("must be an array");
  file.model.merges.reserve(merges.raw().size());
  for (std::size_t i = 0; i < merges.raw().size(); ++i) {
    const auto refuse = [&](const std::string& why) { merges.items()[i].refuse(why); };
    const auto [left, right] = merged_pair(merges.raw()[i]);
    if (left.empty() || right.empty()) refuse("must be two tokens, as \"a b\" or [\"a\", \"b\"]");
    const auto id = [&](const std::string& token) {
      const auto found = ids.find(token);
      if (found == ids.end()) refuse(fmt::format("the token \"{}\" is not in model.vocab", token));
      return found->second;
    };
    file.model.merges.push_back({id(left), id(right), id(left + right)});
  }
}

Vocabulary read_model(const JsonView& model, TokenizerFile& file) {
  const JsonView type = model.at("type");
  if (type.text() != "BPE") type.refuse("is not supported; the model must be BPE");
  for (const char* key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    must_be_off(model, key);
  Vocabulary ids = read_vocabulary(model.at("vocab"), file);
  read_merges(model.at("merges"), ids, file);
  if (!model.flag("ignore_merges", false)) return ids;
  for (const auto& [token, id] : ids)
    if (bytes_of_token(token)) file.model.whole_words.emplace_back(file.token_bytes[id], id);
  return ids;
}

// Returns the id that the reference assigns: the model's if it has the token, otherwise the next
// free one.
std::int32_t id_of_added(const std::string& content, const Vocabulary& ids, std::size_t vocabulary_size,
                         std::int32_t highest) {
  if (const auto found = ids.find(content); found != ids.end()) return found->second;
  return std::max(static_cast<std::int32_t>(vocabulary_size), highest + 1);
}

void read_added_tokens(const JsonView& tokens, Vocabulary& ids, TokenizerFile& file) {
  const std::size_t vocabulary_size = ids.size();
  Vocabulary added;
  std::int32_t highest = -1;
  for (const JsonView& view : tokens.items()) {
    AddedToken token;
    token.content = view.at("content").text();
    token.normalized = view.flag("normalized", true);
    token.id = static_cast<std::int32_t>(view.at("id").integer(0, kMaxId));
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      if (view.flag(key, false)) view.at(key).refuse("is not supported; it must be false");
    if (token.content.empty()) view.at("content").refuse("an empty token is not supported");
    if (!added.emplace(token.content, token.id).second) view.at("content").refuse("is added twice");
    const std::int32_t id = id_of_added(token.content, ids, vocabulary_size, highest);
    if (token.id != id)
      view.at("id").refuse(fmt::format("must be {}, the id that Hugging Face's tokenizers gives it", id));
    if (static_cast<std::size_t>(id) >= file.token_bytes.size()) file.token_bytes.resize(id + 1);
    if (!ids.contains(token.content) && !file.token_bytes[id].empty())
      view.at("id").refuse("another token has this id");
    file.token_bytes[id] = token.content;
    highest = std::max(highest, id);
    file.added_tokens.push_back(std::move(token));
  }
  ids.insert(added.begin(), added.end());
}

// Returns the special token that a template puts before a text, "" without one. The first template
// of a Sequence counts.
std::string template_bos(const JsonView& processor) {
  const JsonView type = processor.at("type");
  if (type.text() == "Sequence") {
    std::string first;
    for (const JsonView& step : processor.at("processors").items())
      if (const std::string bos = template_bos(step); first.empty()) first = bos;
    return first;
  }
  if (type.text() == "ByteLevel") return "";  // changes offsets, not ids
  if (type.text() != "TemplateProcessing")
    type.refuse(
        "is a post-processor that is not supported; it must be TemplateProcessing, ByteLevel or a Sequence "
        "of these");
  const std::vector<JsonView> single = processor.at("single").items();
  if (single.empty()) return "";
  const std::optional<JsonView> special = single.front().find("SpecialToken");
  return special ? special->at("id").text() : "";
}

// Returns the id of bos_token or eos_token: a string, or an object with a string "content".
std::optional<std::int32_t> configured_id(const JsonView& config, const std::string& key,
                                          const Vocabulary& ids) {
  const std::optional<JsonView> value = config.find(key);
  if (!value) return std::nullopt;
  const JsonView name = value->raw().is_object() ? value->at("content") : *value;
  const auto found = ids.find(name.text());
  if (found == ids.end()) name.refuse("is not a token of tokenizer.json in the same folder");
  return found->second;
}

void read_ends(const std::optional<JsonView>& post_processor, const Vocabulary& ids, TokenizerFile& file) {
  const JsonSource source{(fs::path(file.path).parent_path() / "tokenizer_config.json").string()};
  if (fs::exists(source.name)) {
    const nlohmann::json document = parse_json(read_file(source.name, kMaxFileBytes, FileUse::data), source);
    const JsonView config(document, source);
    file.bos = configured_id(config, "bos_token", ids);
    file.eos = configured_id(config, "eos_token", ids);
  }
  if (!post_processor) return;
  const auto found = ids.find(template_bos(*post_processor));
  if (!file.bos && found != ids.end()) file.bos = found->second;
}

void check_plain(const JsonView& root) {
  if (const JsonView version = root.at("version"); version.raw() != "1.0")
    version.refuse("is not supported; it must be \"1.0\"");
  must_be_off(root, "truncation");
  must_be_off(root, "padding");
  if (const auto normalizer = root.find("normalizer")) {
    const JsonView type = normalizer->at("type");
    if (type.text() != "Sequence") type.refuse("is a normalizer that is not supported; it must be null");
    if (const JsonView list = normalizer->at("normalizers"); !list.items().empty())
      list.items().front().at("type").refuse("is a normalizer that is not supported");
  }
  const JsonView decoder = root.at("decoder").at("type");
  if (decoder.text() != "ByteLevel")
    decoder.refuse("is a decoder that is not supported; it must be ByteLevel");
}

std::string file_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return (fs::path(path) / "tokenizer.json").string();
  return path;
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::string& path) {
  TokenizerFile file;
  file.path = file_of(path);
  if (!fs::exists(file.path))
    throw Error(ExitCode::data,
                fmt::format("tokenizer \"{}\": no such file. Name a tokenizer.json, or a folder "
                            "that holds one, or \"bytes\"",
                            file.path));
  const std::string text = read_file(file.path, kMaxFileBytes, FileUse::data);
  const JsonSource source{file.path};
  const nlohmann::json document = parse_json(text, source);
  const JsonView root(document, source);
  check_plain(root);
  Vocabulary ids = read_model(root.at("model"), file);
  if (const auto added = root.find("added_tokens")) read_added_tokens(*added, ids, file);
  file.stages = read_split_stages(root.at("pre_tokenizer"));
  read_ends(root.find("post_processor"), ids, file);
  file.file_hash = XXH3_64bits(text.data(), text.size());
  const std::uint64_t ends = std::uint64_t{static_cast<std::uint32_t>(file.bos.value_or(-1))} << 32 |
                             static_cast<std::uint32_t>(file.eos.value_or(-1));
  file.fingerprint = XXH3_64bits_withSeed(text.data(), text.size(), ends);
  return file;
}

}  // namespace rondo

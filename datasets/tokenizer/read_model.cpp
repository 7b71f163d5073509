// Words are bytes where that gives the reference's ids: the pre_tokenizer ends in ByteLevel, and no
// option of the model looks at characters. Then a stage that writes words in the alphabet of
// ByteLevel is left out. All other models encode characters.
//
// Valid text has 243 of the 256 bytes: C0, C1 and F5 to FF never occur in UTF-8.
//
// Ids of added tokens are computed as the reference does and compared with those in the file.
#include "datasets/tokenizer/read_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "datasets/tokenizer/split/byte_level.h"
#include "datasets/tokenizer/split/pattern.h"
#include "support/error.h"

namespace rondo {
namespace {

bool is_byte_of_utf8(int byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

void claim(const JsonView& view, std::int32_t id, TokenizerFile& file) {
  if (!claim_id(id, file)) view.refuse("another token has this id");
}

Vocabulary read_vocabulary(const JsonView& vocab, TokenizerFile& file) {
  Vocabulary ids;
  for (const auto& [token, value] : vocab.object().items()) {
    if (has_many_problems(vocab)) break;
    const JsonView view = vocab.child(value, token);
    const auto id = static_cast<std::int32_t>(view.integer(0, kMaxId));
    if (!whole_number(value, 0, kMaxId)) continue;
    claim(view, id, file);
    ids.emplace(token, id);
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

// Returns whether this is the first line of a merges.txt, which the reference leaves out too.
bool is_version_line(const nlohmann::json& merge) {
  return merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version");
}

// `prefix`: continuing_subword_prefix, which the right token loses.
void read_merges(const JsonView& merges, const std::string& prefix, const Vocabulary& ids,
                 TokenizerFile& file) {
  if (!merges.raw().is_array()) return merges.refuse("must be an array");
  if (merges.raw().size() > kMaxMerges)
    return merges.refuse(fmt::format("must have at most {} merges", kMaxMerges));
  file.model.merges.reserve(merges.raw().size());
  std::size_t index = 0;
  for (const nlohmann::json& merge : merges.raw()) {
    if (has_many_problems(merges)) return;
    ++index;
    if (is_version_line(merge)) continue;
    std::string problem;
    const auto id = [&](const std::string& token) {
      const auto found = ids.find(token);
      if (found == ids.end() && problem.empty())
        problem = fmt::format("the token \"{}\" is not in model.vocab", token);
      return found == ids.end() ? 0 : found->second;
    };
    const auto [left, right] = merged_pair(merge);
    if (left.empty() || right.empty())
      problem = "must be two tokens, as \"a b\" or [\"a\", \"b\"]";
    else if (right.size() < prefix.size())
      problem = fmt::format("the second token is shorter than continuing_subword_prefix, \"{}\"", prefix);
    else
      file.model.merges.push_back({id(left), id(right), id(left + right.substr(prefix.size()))});
    if (!problem.empty()) merges.items()[index - 1].refuse(problem);
  }
}

std::string text_or_empty(const JsonView& owner, const std::string& key) {
  const std::optional<JsonView> value = owner.find(key);
  return value ? value->text() : "";
}

// Returns the name of a model whose file does not say its type, as files before version 0.9 of the
// package do not.
std::string kind_of(const JsonView& model) {
  if (const auto type = model.find("type")) return type->text();
  const nlohmann::json& fields = model.object();
  if (fields.contains("merges")) return "BPE";
  if (fields.contains("max_input_chars_per_word")) return "WordPiece";
  return fields.contains("vocab") && fields["vocab"].is_array() ? "Unigram" : "WordLevel";
}

bool check_kind(const JsonView& model) {
  if (!model.raw().is_object()) {
    model.object();
    return false;
  }
  const std::string kind = kind_of(model);
  if (kind == "BPE") return true;
  if (const auto type = model.find("type"))
    type->refuse("is not supported; the model must be BPE");
  else
    model.refuse(fmt::format("is a {} model without a type; the model must be BPE", kind));
  return false;
}

// Returns the ids of the tokens of one byte, which token_of(byte) names; -1 for those without one.
template <class Name>
std::array<std::int32_t, 256> ids_of_bytes(const Vocabulary& ids, const Name& token_of) {
  std::array<std::int32_t, 256> byte_ids{};
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = ids.find(token_of(byte));
    byte_ids[byte] = id == ids.end() ? -1 : id->second;
  }
  return byte_ids;
}

bool is_complete(const std::array<std::int32_t, 256>& byte_ids) {
  for (int byte = 0; byte < 256; ++byte)
    if (is_byte_of_utf8(byte) && byte_ids[byte] < 0) return false;
  return true;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Inverts what the encoder did to text: the decoder of the file is not read.
class TokenText {
 public:
  TokenText(const TokenizerFile& file, std::string prefix, std::string suffix)
      : file_(file), prefix_(std::move(prefix)), suffix_(std::move(suffix)) {
    for (const NormalizerStep& step : file.normalizer)
      if (step.kind == NormalizerStep::Kind::replace && step.pattern == pcre2_literal(" "))
        space_ = step.content;
    for (const SplitStage& stage : file.stages)
      if (stage.kind == SplitStage::Kind::metaspace) space_ = stage.replacement;
  }

  bool is_space(const std::string& text) const { return !space_.empty() && text == space_; }

  std::string bytes(std::string token, std::int32_t id) const {
    const auto byte = std::find(file_.model.byte_ids.begin(), file_.model.byte_ids.end(), id);
    if (!file_.maps_bytes && byte != file_.model.byte_ids.end())
      return std::string(1, static_cast<char>(byte - file_.model.byte_ids.begin()));
    const bool ends_word = !suffix_.empty() && token.ends_with(suffix_);
    if (ends_word) token.resize(token.size() - suffix_.size());
    if (!prefix_.empty() && token.starts_with(prefix_)) token.erase(0, prefix_.size());
    if (file_.maps_bytes) token = bytes_of_token(token).value_or(token);
    if (!file_.maps_bytes) replace_all(token, space_, " ");
    return ends_word ? token + " " : token;
  }

 private:
  const TokenizerFile& file_;
  std::string prefix_, suffix_, space_;
};

void set_token_bytes(const Vocabulary& ids, const std::string& prefix, const std::string& suffix,
                     TokenizerFile& file) {
  const TokenText text(file, prefix, suffix);
  for (const auto& [token, id] : ids) file.token_bytes[id] = text.bytes(token, id);
  for (const NormalizerStep& step : file.normalizer)
    file.adds_space |= step.kind == NormalizerStep::Kind::prepend && text.is_space(step.content);
  for (const SplitStage& stage : file.stages)
    file.adds_space |=
        stage.kind == SplitStage::Kind::metaspace && stage.prepend != SplitStage::Prepend::never;
}

}  // namespace

Vocabulary read_model(const JsonView& model, TokenizerFile& file) {
  if (!check_kind(model)) return {};
  if (const auto dropout = model.find("dropout"); dropout && dropout->number() != 0)
    dropout->refuse("is not supported; it must be null");
  BpeCharacters characters{.prefix = text_or_empty(model, "continuing_subword_prefix"),
                           .suffix = text_or_empty(model, "end_of_word_suffix"),
                           .fuse_unknown = model.flag("fuse_unk", false),
                           .byte_fallback = model.flag("byte_fallback", false)};
  const std::string unknown = text_or_empty(model, "unk_token");
  Vocabulary ids = read_vocabulary(model.at("vocab"), file);
  read_merges(model.at("merges"), characters.prefix, ids, file);

  for (const NormalizerStep& step : file.normalizer)
    file.maps_bytes |= step.kind == NormalizerStep::Kind::bytes;
  for (const SplitStage& stage : file.stages) file.maps_bytes |= stage.kind == SplitStage::Kind::bytes;
  file.model.byte_ids =
      ids_of_bytes(ids, [](int byte) { return token_of_bytes(std::string(1, static_cast<char>(byte))); });
  const bool ends_in_bytes = !file.stages.empty() && file.stages.back().kind == SplitStage::Kind::bytes;
  const bool is_plain = characters.prefix.empty() && characters.suffix.empty();
  const bool drops = unknown.empty() && !characters.byte_fallback;
  const bool ignore_merges = model.flag("ignore_merges", false);
  if (ends_in_bytes && is_plain && (drops || is_complete(file.model.byte_ids))) {
    set_token_bytes(ids, "", "", file);
    file.stages.pop_back();
    for (const auto& [token, id] : ids)
      if (ignore_merges && bytes_of_token(token))
        file.model.whole_words.emplace_back(file.token_bytes[id], id);
    return ids;
  }
  if (characters.byte_fallback)
    file.model.byte_ids = ids_of_bytes(ids, [](int byte) { return fmt::format("<0x{:02X}>", byte); });
  else
    file.model.byte_ids.fill(-1);
  set_token_bytes(ids, characters.prefix, characters.suffix, file);
  if (ignore_merges) file.model.whole_words.assign(ids.begin(), ids.end());
  if (const auto id = ids.find(unknown); id != ids.end() && !unknown.empty()) characters.unknown = id->second;
  if (!unknown.empty() && !characters.unknown) model.at("unk_token").refuse("is not a token of model.vocab");
  characters.ids = ids;
  file.model.characters = std::move(characters);
  return ids;
}

void read_added_tokens(const JsonView& tokens, bool checks_ids, Vocabulary& ids, TokenizerFile& file) {
  const auto vocabulary_size = static_cast<std::int32_t>(ids.size());
  const Normalizer normalizer(file.normalizer);
  RegexScratch scratch;
  std::set<std::pair<bool, std::string>> patterns;
  Vocabulary added;
  std::int32_t highest = -1;
  for (const JsonView& view : tokens.items()) {
    if (has_many_problems(view)) break;
    AddedToken token;
    token.content = view.at("content").text();
    token.normalized = view.flag("normalized", true);
    token.special = view.flag("special", false);
    token.id = static_cast<std::int32_t>(view.at("id").integer(0, kMaxId));
    token.rules = {.single_word = view.flag("single_word", false),
                   .takes_left = view.flag("lstrip", false),
                   .takes_right = view.flag("rstrip", false)};
    token.pattern = token.content;
    if (token.content.empty()) {
      view.at("content").refuse("an empty token is not supported");
      continue;
    }
    if (token.content.size() > kMaxTokenBytes) {
      view.at("content").refuse(fmt::format("has more than {} bytes", kMaxTokenBytes));
      continue;
    }
    if (token.normalized) normalizer.apply(token.pattern, scratch);
    if (token.pattern.empty()) view.at("content").refuse("is empty after the normalizer");
    if (!added.emplace(token.content, token.id).second)
      view.at("content").refuse("is added twice");
    else if (!patterns.emplace(token.normalized, token.pattern).second)
      view.at("content").refuse("is equal to another added token after the normalizer");
    // The model's id if it has the token, otherwise the next free one.
    if (!checks_ids) continue;
    const auto known = ids.find(token.content);
    const std::int32_t id = known != ids.end() ? known->second : std::max(vocabulary_size, highest + 1);
    if (token.id != id)
      view.at("id").refuse(fmt::format("must be {}, the id that Hugging Face's tokenizers gives it", id));
    else if (known == ids.end())
      claim(view.at("id"), id, file);
    if (token.id == id) file.token_bytes[id] = token.content;
    highest = std::max(highest, id);
    file.added_tokens.push_back(std::move(token));
  }
  ids.insert(added.begin(), added.end());
}

}  // namespace rondo

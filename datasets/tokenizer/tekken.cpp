// Special tokens have the first ids, ranks those after them. Of the ranks only the first count, as
// many as default_vocab_size leaves.
#include "datasets/tokenizer/tekken.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "datasets/tokenizer/rank_file.h"
#include "support/text/base64.h"

namespace rondo {
namespace {

// Of files that list none: versions up to v7 (DEPRECATED_SPECIAL_TOKENS of mistral-common).
constexpr std::array<const char*, 20> kFirstTokens = {"<unk>",
                                                      "<s>",
                                                      "</s>",
                                                      "[INST]",
                                                      "[/INST]",
                                                      "[AVAILABLE_TOOLS]",
                                                      "[/AVAILABLE_TOOLS]",
                                                      "[TOOL_RESULTS]",
                                                      "[/TOOL_RESULTS]",
                                                      "[TOOL_CALLS]",
                                                      "[IMG]",
                                                      "<pad>",
                                                      "[IMG_BREAK]",
                                                      "[IMG_END]",
                                                      "[PREFIX]",
                                                      "[MIDDLE]",
                                                      "[SUFFIX]",
                                                      "[SYSTEM_PROMPT]",
                                                      "[/SYSTEM_PROMPT]",
                                                      "[TOOL_CONTENT]"};

void add_special_tokens(const JsonView& root, std::int32_t count, TokenizerFile& file, Vocabulary& ids) {
  std::int32_t listed = 0;
  const auto list = root.find("special_tokens");
  for (const JsonView& token : list ? list->items() : std::vector<JsonView>()) {
    if (has_many_problems(token)) return;
    const auto id = static_cast<std::int32_t>(token.at("rank").integer(0, std::max(count - 1, 0)));
    const std::string& name = token.at("token_str").text();
    if (listed >= count || !claim_token(id, name, name, file, ids))
      token.refuse("another special token has this rank or this name, or there are too many");
    ++listed;
  }
  if (!list)
    for (const char* name : kFirstTokens)
      if (listed < count) claim_token(listed, name, name, file, ids), ++listed;
  for (std::int32_t id = listed; id < count; ++id) {
    const std::string name = fmt::format("<SPECIAL_{}>", id);
    if (!claim_token(id, name, name, file, ids)) {
      root.at("special_tokens").refuse("must have the ranks from 0 on, each once");
      return;
    }
  }
}

RankedTokens read_tokens(const JsonView& vocab, std::size_t count) {
  RankedTokens tokens;
  std::set<std::string> known;
  if (!vocab.raw().is_array() || vocab.raw().size() < count) {
    vocab.refuse(fmt::format("must be an array of at least {} tokens", count));
    return tokens;
  }
  for (const nlohmann::json& entry : vocab.raw()) {
    const std::size_t rank = tokens.size();
    if (rank == count || has_many_problems(vocab)) break;
    std::optional<std::string> bytes;
    if (entry.is_object() && entry.value("rank", nlohmann::json()) == rank && entry.contains("token_bytes") &&
        entry["token_bytes"].is_string())
      bytes = base64_bytes(entry["token_bytes"].get_ref<const std::string&>());
    if (!bytes || bytes->empty() || bytes->size() > kMaxTokenBytes || !known.insert(*bytes).second) {
      vocab.items()[rank].refuse(fmt::format(
          "must be an object with \"rank\": {} and \"token_bytes\", 1 to {} bytes in base64 that no "
          "other token has",
          rank, kMaxTokenBytes));
      bytes.emplace();
    }
    tokens.push_back(std::move(*bytes));
  }
  return tokens;
}

// Patterns are read as Oniguruma reads them. Refuses what means something else to tiktoken.
void check_pattern(const JsonView& pattern) {
  constexpr std::string_view kEndsOfIntervals = "0123456789,";
  const std::string& text = pattern.text();
  bool differs = text.find('$') != text.npos || text.find("\\b") != text.npos;
  for (std::size_t at = text.find("}+"); at != text.npos; at = text.find("}+", at + 1))
    differs |= at > 0 && kEndsOfIntervals.find(text[at - 1]) != kEndsOfIntervals.npos;
  if (differs) pattern.refuse("has $, \\b or {n}+, which are not supported in a tekken.json");
}

}  // namespace

bool is_tekken(const nlohmann::json& document) {
  return document.is_object() && document.contains("config") && document.contains("vocab") &&
         !document.contains("model");
}

Vocabulary read_tekken(const JsonView& root, TokenizerFile& file, FormatEnds& ends) {
  Vocabulary ids;
  std::vector<std::string>& problems = *root.source().problems;
  const JsonView config = root.at("config");
  const auto size = static_cast<std::int32_t>(config.at("default_vocab_size").integer(1, kMaxId));
  const auto special = static_cast<std::int32_t>(config.at("default_num_special_tokens").integer(0, size));
  const std::string& pattern = config.at("pattern").text();
  check_pattern(config.at("pattern"));
  if (!problems.empty()) return ids;
  const RankedTokens tokens = read_tokens(root.at("vocab"), static_cast<std::size_t>(size - special));
  if (!problems.empty()) return ids;
  add_ranked_tokens(tokens, special, pattern, file, ids, problems);
  add_special_tokens(root, special, file, ids);
  ends = {.bos = ids.contains("<s>") ? "<s>" : "", .eos = ids.contains("</s>") ? "</s>" : ""};
  return ids;
}

}  // namespace rondo

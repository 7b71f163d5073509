// tiktoken has no list of merges. Here each way to write a token as two tokens is a merge with the
// rank of the token, so merges of one token are equal, and the leftmost comes first. A word that is
// a token is that token, as in tiktoken.
#include "datasets/tokenizer/rank_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "datasets/tokenizer/split/byte_level.h"
#include "datasets/tokenizer/split/split_stages.h"
#include "support/files/file.h"
#include "support/text/base64.h"

namespace rondo {
namespace {

struct RankLine {
  std::string bytes;
  std::int32_t rank;
};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<RankLine> read_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == line.npos || space == 0) return std::nullopt;
  const std::string_view digits = line.substr(space + 1);
  std::optional<std::string> bytes = base64_bytes(line.substr(0, space));
  std::int32_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (!bytes || error != std::errc() || end != digits.data() + digits.size() || rank < 0) return std::nullopt;
  return RankLine{std::move(*bytes), rank};
}

RankedTokens read_tokens(std::string_view text, std::vector<std::string>& problems) {
  RankedTokens tokens;
  std::unordered_map<std::string, std::int32_t> ranks;
  for (std::int64_t number = 1; !text.empty() && problems.size() < kMaxProblems; ++number) {
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const auto refuse = [&](const std::string& why) {
      problems.push_back(fmt::format("line {}: {}", number, why));
    };
    std::optional<RankLine> read = read_line(line);
    if (!read || read->rank > kMaxId) {
      refuse(fmt::format("must be a token in base64, a space and its rank, 0 to {}", kMaxId));
      continue;
    }
    if (read->bytes.size() > kMaxTokenBytes) {
      refuse(fmt::format("has a token of more than {} bytes", kMaxTokenBytes));
      continue;
    }
    const auto index = static_cast<std::size_t>(read->rank);
    if (index >= tokens.size()) tokens.resize(index + 1);
    if (!tokens[index].empty())
      refuse(fmt::format("another token has the rank {}", index));
    else if (!ranks.emplace(read->bytes, read->rank).second)
      refuse("another line has this token");
    else
      tokens[index] = std::move(read->bytes);
  }
  return tokens;
}

bool is_family(const RankFamily& family, const RankedTokens& tokens,
               const std::map<std::int32_t, std::string>& configured) {
  if (tokens.size() != family.ranks || std::count(tokens.begin(), tokens.end(), "") > 0) return false;
  if (family.hash != 0) return family.hash == hash_of_ranks(tokens);
  const auto is_configured = [&](std::size_t id, std::string_view name) {
    const auto token = configured.find(static_cast<std::int32_t>(id));
    return token != configured.end() && token->second == name;
  };
  return is_configured(family.ranks, family.bos) && is_configured(family.ranks + 1, family.eos);
}

std::string refusal(std::span<const RankFamily> families, const RankedTokens& tokens) {
  std::string known;
  for (const RankFamily& family : families)
    known += fmt::format(
        "{}{} ({}{})", known.empty() ? "" : ", ", family.name, family.ranks,
        family.hash == 0
            ? fmt::format(", with {} and {} after them in tokenizer_config.json", family.bos, family.eos)
            : "");
  return fmt::format(
      "is a file of {} tiktoken ranks without the pattern that splits words. The pattern is known for the "
      "ranks of {}. Make a tokenizer.json of others in Python: transformers.integrations.tiktoken."
      "convert_tiktoken_to_fast(tiktoken.Encoding(NAME, pat_str=PATTERN, mergeable_ranks="
      "tiktoken.load.load_tiktoken_bpe(FILE), special_tokens={{TOKEN: ID}}), FOLDER)",
      tokens.size() - static_cast<std::size_t>(std::count(tokens.begin(), tokens.end(), "")), known);
}

void add_special_tokens(const RankFamily& family, const RankedTokens& tokens,
                        std::map<std::int32_t, std::string> specials, TokenizerFile& file, Vocabulary& ids,
                        std::vector<std::string>& problems) {
  if (family.special_tokens != nullptr) {
    std::map<std::int32_t, std::string> named = family.special_tokens();
    for (const auto& [id, token] : specials)
      std::erase_if(named, [&](const auto& other) { return other.second == token; });
    specials.merge(named);  // an id keeps its configured name
  }
  for (const auto& [id, content] : specials) {
    const bool is_rank = static_cast<std::size_t>(id) < tokens.size();
    if (is_rank && tokens[id] == content) continue;
    if (!claim_token(id, content, content, file, ids)) {
      problems.push_back(fmt::format("tokenizer_config.json: added_tokens_decoder.{} = \"{}\": {}", id,
                                     content,
                                     is_rank ? "the file of ranks has another token" : "is a token already"));
      if (problems.size() >= kMaxProblems) return;
      continue;
    }
    file.added_tokens.push_back({.content = content,
                                 .pattern = content,
                                 .id = id,
                                 .normalized = family.nfc,
                                 .special = true,
                                 .rules = {}});
  }
}

}  // namespace

bool is_rank_text(std::string_view text) {
  while (!text.empty())
    if (const std::string_view line = next_line(text); !line.empty()) return read_line(line).has_value();
  return false;
}

std::uint64_t hash_of_ranks(const RankedTokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += std::to_string(token.size()) + ':' + token;
  return XXH3_64bits(all.data(), all.size());
}

void add_ranked_tokens(const RankedTokens& tokens, std::int32_t first_id, std::string_view pattern,
                       TokenizerFile& file, Vocabulary& ids, std::vector<std::string>& problems) {
  const nlohmann::json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Removed"}, {"invert", true}};
  const JsonSource source{.problems = &problems};
  file.stages = read_split_stages(JsonView(split, source));
  std::unordered_map<std::string_view, std::int32_t> known;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    if (!tokens[rank].empty()) known.emplace(tokens[rank], first_id + static_cast<std::int32_t>(rank));
  file.model.byte_ids.fill(-1);
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string_view token = tokens[rank];
    const std::int32_t id = first_id + static_cast<std::int32_t>(rank);
    if (token.empty()) continue;
    claim_token(id, token_of_bytes(token), token, file, ids);
    file.model.whole_words.emplace_back(token, id);
    if (token.size() == 1) file.model.byte_ids[static_cast<unsigned char>(token[0])] = id;
    for (std::size_t i = 1; i < token.size(); ++i) {
      const auto left = known.find(token.substr(0, i));
      const auto right = left == known.end() ? left : known.find(token.substr(i));
      if (right != known.end()) file.model.merges.push_back({left->second, right->second, id});
    }
  }
  file.model.token_ranks.resize(file.token_bytes.size());
  for (std::size_t id = 0; id < file.token_bytes.size(); ++id)
    file.model.token_ranks[id] = static_cast<std::uint32_t>(id);
}

Vocabulary read_rank_file(std::string_view text, std::span<const RankFamily> families, TokenizerFile& file,
                          FormatEnds& ends, std::vector<std::string>& problems) {
  Vocabulary ids;
  const RankedTokens tokens = read_tokens(text, problems);
  std::map<std::int32_t, std::string> configured = configured_tokens(file, problems);
  if (!problems.empty()) return ids;
  const auto family = std::find_if(families.begin(), families.end(), [&](const RankFamily& candidate) {
    return is_family(candidate, tokens, configured);
  });
  if (family == families.end()) {
    problems.push_back(refusal(families, tokens));
    return ids;
  }
  if (family->nfc) file.normalizer.push_back({.form = UnicodeForm::nfc, .meaning = "NFC"});
  add_ranked_tokens(tokens, 0, family->pattern, file, ids, problems);
  add_special_tokens(*family, tokens, std::move(configured), file, ids, problems);
  ends = {.bos = std::string(family->bos), .eos = std::string(family->eos)};
  return ids;
}

}  // namespace rondo

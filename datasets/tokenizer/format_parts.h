// Parts that the readers of all formats of tokenizers share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/tokenizer/tokenizer_file.h"
#include "support/text/json_view.h"

namespace rondo {

constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";
constexpr std::int64_t kMaxFileBytes = std::int64_t{256} << 20;
constexpr std::int32_t kMaxId = (1 << 21) - 1;
constexpr std::size_t kMaxProblems = 20;      // of one part of a file
constexpr std::size_t kMaxTokenBytes = 1024;  // of an added token, or one whose merges follow from its bytes

// Maps tokens, as the file writes them, to ids.
using Vocabulary = std::unordered_map<std::string, std::int32_t>;

// BOS and EOS that the format itself names; empty: none.
struct FormatEnds {
  std::string bos, eos;
};

inline bool has_many_problems(const JsonView& view) { return view.source().problems->size() >= kMaxProblems; }

// Marks `id` as a token's. Returns false if it is another token's already.
bool claim_id(std::int32_t id, TokenizerFile& file);

// Gives `id` to the token `name`, which adds `bytes` to decoded text. Returns false if the id or
// the name is another token's already.
bool claim_token(std::int32_t id, const std::string& name, std::string_view bytes, TokenizerFile& file,
                 Vocabulary& ids);

// Returns added_tokens_decoder of tokenizer_config.json in the folder of `file`, by id. Empty
// without one.
std::map<std::int32_t, std::string> configured_tokens(const TokenizerFile& file,
                                                      std::vector<std::string>& problems);

}  // namespace rondo

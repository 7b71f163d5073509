// Reads files of ranks, which the package tiktoken writes: tiktoken.model, tokenizer.model of Llama
// 3 and 4, *.tiktoken. A line for each token has its bytes in base64 and its rank, which is its id.
//
// The ids are those of tiktoken's encode(text, allowed_special="all"). Of all neighbours those
// merge whose bytes together have the lowest rank, the leftmost first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer/format_parts.h"
#include "datasets/tokenizer/rank_families.h"

namespace rondo {

// Bytes of tokens by rank; empty: no token has the rank.
using RankedTokens = std::vector<std::string>;

// Returns whether a text begins with a line of a file of ranks.
bool is_rank_text(std::string_view text);

// Returns the same number for the same tokens.
std::uint64_t hash_of_ranks(const RankedTokens& tokens);

// Reads a file of ranks, and the special tokens of tokenizer_config.json in its folder. Names the
// family's BOS and EOS in `ends`. Reports problems to `problems`; refuses ranks of no family.
Vocabulary read_rank_file(std::string_view text, std::span<const RankFamily> families, TokenizerFile& file,
                          FormatEnds& ends, std::vector<std::string>& problems);

// Adds ranked tokens to `ids` and `file`: the token of rank r has the id first_id + r. What the
// pattern does not match is left out, as in tiktoken. REQUIRES: the tokens are different.
void add_ranked_tokens(const RankedTokens& tokens, std::int32_t first_id, std::string_view pattern,
                       TokenizerFile& file, Vocabulary& ids, std::vector<std::string>& problems);

}  // namespace rondo

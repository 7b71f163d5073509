// Tokenizers that are published as files of ranks, with what those files lack: the pattern that
// splits a text, the special tokens, BOS and EOS.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace rondo {

struct RankFamily {
  std::string_view name = "";
  std::size_t ranks = 0;
  // The hash_of_ranks of the tokens. 0 means unknown: `bos` and `eos` must then have the first two
  // ids after the ranks in tokenizer_config.json.
  std::uint64_t hash = 0;
  std::string_view pattern = "";  // in the syntax of tokenizer.json
  // By id. tokenizer_config.json may give other names, and more tokens.
  std::map<std::int32_t, std::string> (*special_tokens)() = nullptr;
  std::string_view bos = "", eos = "";  // empty: none
  bool nfc = false;                     // texts are normalized to NFC
};

// Sources: tiktoken's openai_public.py, Meta's llama-models, tokenization_qwen.py and
// tokenization_kimi.py.
std::span<const RankFamily> rank_families();

}  // namespace rondo

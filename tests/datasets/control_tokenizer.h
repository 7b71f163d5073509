// A tokenizer.json with few words and one control token.
#pragma once

namespace rondo {

// The ids of h e l o < | n d > and the space are 0 to 9, "he" is 10, <|end|> is 11. Other bytes
// have no token.
inline constexpr char kControlTokenizer[] = R"({"version": "1.0", "normalizer": null, "post_processor": null,
  "added_tokens": [{"id": 11, "content": "<|end|>", "normalized": false, "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "model": {"type": "BPE", "merges": ["h e"], "vocab": {"h": 0, "e": 1, "l": 2, "o": 3, "<": 4, "|": 5,
  "n": 6, "d": 7, ">": 8, "\u0120": 9, "he": 10}}})";
inline constexpr char kBosIsEos[] =
    R"({"bos_token": "<|end|>", "eos_token": "<|end|>", "add_bos_token": false})";

}  // namespace rondo

// The reader of tokenizer.json, the file of the Hugging Face package `tokenizers`, version 1.0, and of
// tokenizer_config.json beside it.
//
// Understood is what byte-level BPE models use: model BPE with ignore_merges; a pre_tokenizer ByteLevel, or a
// Sequence of Split (Regex or String; Isolated, or Removed) that ends in ByteLevel; added tokens that stand
// for themselves; no normalizer. Everything else is an Error(data) that names file, path and value, for ids
// that are only nearly right would go unnoticed. The post_processor adds nothing to text without special
// tokens; it is read for the token that stands before a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/tokenizer/bpe.h"
#include "datasets/tokenizer/split/splitter.h"

namespace rondo {

struct AddedToken {
  std::string content;  // not empty
  std::int32_t id = 0;
  bool normalized = false;  // looked for in what the others left over
};

struct TokenizerFile {
  std::string path;                      // of the tokenizer.json
  std::vector<std::string> token_bytes;  // by id: what it stands for in text; empty where no token has the id
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  std::vector<SplitStage> stages;        // of the pre_tokenizer
  std::optional<std::int32_t> bos, eos;  // bos_token and eos_token of tokenizer_config.json
  std::uint64_t file_hash = 0;           // XXH3-64 of the tokenizer.json
  std::uint64_t fingerprint = 0;         // of all that decides about ids
};

// `path`: a tokenizer.json, or a folder that holds one.
TokenizerFile read_tokenizer_file(const std::string& path);

}  // namespace rondo

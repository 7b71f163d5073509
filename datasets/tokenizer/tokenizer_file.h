// Reads tokenizer.json, the file of the Hugging Face package `tokenizers`, version 1.0, and
// tokenizer_config.json in the same folder.
//
// Supported is what byte-level BPE models use: model BPE with ignore_merges; a pre_tokenizer
// ByteLevel, or a Sequence of Split (Regex or String; Isolated or Removed) that ends in ByteLevel;
// literal added tokens; no normalizer. Everything else is an Error(data) that names file, path and
// value, because ids that are nearly right would go unnoticed. The post_processor adds nothing to
// text without special tokens. It is read for the token that precedes a text.
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
  bool normalized = false;  // searched only between the other added tokens
};

struct TokenizerFile {
  std::string path;                      // of the tokenizer.json
  std::vector<std::string> token_bytes;  // by id: the bytes of the token; empty for an unused id
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  std::vector<SplitStage> stages;        // stages of the pre_tokenizer
  std::optional<std::int32_t> bos, eos;  // bos_token and eos_token of tokenizer_config.json
  std::uint64_t file_hash = 0;           // XXH3-64 of the tokenizer.json
  std::uint64_t fingerprint = 0;         // hash of everything that determines ids
};

// Reads a tokenizer.json, or the one in a folder. Throws Error(data).
TokenizerFile read_tokenizer_file(const std::string& path);

}  // namespace rondo

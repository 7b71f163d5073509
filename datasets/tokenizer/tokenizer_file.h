// Reads the file of a tokenizer, and BOS and EOS of tokenizer_config.json in the same folder, or of
// special_tokens_map.json where that one names none. The content of the file decides its format:
// tokenizer.json of the Hugging Face package `tokenizers`, version 1.0, ranks of tiktoken
// (rank_file.h), tekken.json (tekken.h) or a model of SentencePiece (sentencepiece.h).
//
// Of a tokenizer.json the following is read.
// Supported are BPE models with their options, the normalizers and pre-tokenizers that
// normalize/read_normalizer.h and split/split_stages.h list, and added tokens with their rules. A
// setting that changes no id is accepted: padding, truncation, the decoder. Everything else is an
// Error(data) that names all of it with path and value, because ids that are nearly right would go
// unnoticed. The post_processor adds nothing to text without special tokens. It is read for the
// token that precedes a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer/added_tokens.h"
#include "datasets/tokenizer/bpe/bpe.h"
#include "datasets/tokenizer/normalize/normalizer.h"
#include "datasets/tokenizer/rank_families.h"
#include "datasets/tokenizer/split/splitter.h"

namespace rondo {

struct AddedToken {
  std::string content;  // not empty
  // Searched in the text: `content`, or what the normalizer makes of it. Not empty, and different
  // for all tokens with the same `normalized`.
  std::string pattern;
  std::int32_t id = 0;
  bool normalized = false;  // searched in normalized text, between the other added tokens
  bool special = false;
  AddedTokenRules rules;
};

struct TokenizerFile {
  std::string path;                      // of the file
  std::vector<std::string> token_bytes;  // by id: what the token adds to decoded text
  std::vector<bool> is_token;            // by id
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStage> stages;        // of the pre_tokenizer
  bool maps_bytes = false;               // the words are in the alphabet of ByteLevel
  bool adds_space = false;               // decoded text begins with a space that was not in the original
  std::optional<std::int32_t> bos, eos;  // bos_token and eos_token of the files beside it
  bool adds_bos = true;                  // its add_bos_token
  std::uint64_t file_hash = 0;           // XXH3-64 of the file
  std::uint64_t fingerprint = 0;         // hash of everything that determines ids
};

constexpr std::string_view kTekken = "tekken.json";

// Returns the files of tokenizers in a folder, the one to read first: tokenizer.json,
// tiktoken.model, tokenizer.model, tekken.json, and *.tiktoken in the order of their names.
std::vector<std::filesystem::path> tokenizer_files_in(const std::filesystem::path& folder);

// Reads a file of a tokenizer, or the first one in a folder. A file of ranks must be of one of the
// families. Throws Error(data).
TokenizerFile read_tokenizer_file(const std::string& path,
                                  std::span<const RankFamily> families = rank_families());

}  // namespace rondo

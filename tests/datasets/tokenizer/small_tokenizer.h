// A small tokenizer.json. The 256 bytes have the ids 0..255 in the order of their values, followed
// by "he", "ll", "hell", "hello", " w" and the added token <|end|>.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "datasets/tokenizer/bpe_tokenizer.h"
#include "datasets/tokenizer/split/byte_level.h"
#include "tests/datasets/temp_folder.h"

namespace rondo {

inline nlohmann::json added_token(const std::string& content, int id, bool normalized = false) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", true}};
}

inline nlohmann::json split(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[token_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  int next = 256;
  for (const char* token : {"he", "ll", "hell", "hello", "\u0120w"}) vocab[token] = next++;
  const nlohmann::json model = {{"type", "BPE"},
                                {"dropout", nullptr},
                                {"unk_token", nullptr},
                                {"byte_fallback", false},
                                {"ignore_merges", false},
                                {"vocab", vocab},
                                {"merges", {"h e", "l l", "he ll", "hell o", "\u0120 w"}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added_token("<|end|>", 261)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", model}};
}

using Ids = std::vector<std::int32_t>;

// Reads `document` as a tokenizer.json, with `config` as its tokenizer_config.json.
inline std::unique_ptr<BpeTokenizer> tokenizer_of(const nlohmann::json& document,
                                                  const nlohmann::json& config = nullptr) {
  const TempFolder folder;
  folder.write("tokenizer.json", document.dump());
  if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
  return std::make_unique<BpeTokenizer>(read_tokenizer_file(folder.path()));
}

inline Ids ids_of(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

inline std::string text_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  tokenizer.decode(ids, text);
  return text;
}

}  // namespace rondo

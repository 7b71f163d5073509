// Converts text to token ids and back. The byte tokenizer is built in: every byte is one token, so
// any text, valid UTF-8 or not, has exactly one encoding. Others are read from files
// (bpe_tokenizer.h). Tokenizers are immutable; any thread may encode and decode.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer/special_tokens.h"

namespace rondo {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Equal for two tokenizers if and only if they give the same ids.
  virtual std::string name() const = 0;
  virtual std::uint64_t file_hash() const { return 0; }  // XXH3-64 of its file; 0 without one
  virtual std::int64_t vocab_size() const = 0;           // ids are in [0, vocab_size)
  virtual std::optional<std::int32_t> bos() const = 0;
  virtual bool adds_bos() const { return true; }  // whether BOS begins a text: add_bos_token
  virtual std::int32_t eos() const = 0;           // REQUIRES has_eos(), or throws Error(data)
  virtual bool has_eos() const { return true; }
  // Returns the control tokens that a text can spell, ascending, and what such text becomes.
  virtual std::vector<std::int32_t> control_tokens() const { return {}; }
  virtual SpecialTokens special_tokens() const { return SpecialTokens::token; }
  // Returns the token with this text; nullopt if there is none.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  virtual std::string text_of(std::int32_t id) const = 0;  // REQUIRES an id of the tokenizer
  // Appends the ids of `text`, without BOS and EOS. Returns how many control tokens the text
  // spells.
  virtual std::int64_t encode(std::string_view text, std::vector<std::int32_t>& out) const = 0;
  // Appends the bytes of `ids`, which go on with the text in `out`: where that is empty they begin
  // a text. BOS and EOS of the byte tokenizer have no bytes. Throws Error(data) for an unknown id.
  virtual void decode(std::span<const std::int32_t> ids, std::string& out) const = 0;
  // Returns how many bytes or characters of all encoded texts had no token and were dropped.
  virtual std::int64_t dropped() const { return 0; }
};

// Ids 0..255 are the bytes. 256 is BOS and 257 is EOS, with the names <bos> and <eos>, which no
// text spells.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "byte"; }
  std::int64_t vocab_size() const override { return 258; }
  std::optional<std::int32_t> bos() const override { return 256; }
  std::int32_t eos() const override { return 257; }
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::string text_of(std::int32_t id) const override;
  std::int64_t encode(std::string_view text, std::vector<std::int32_t>& out) const override;
  void decode(std::span<const std::int32_t> ids, std::string& out) const override;
};

// Returns the byte tokenizer for "bytes"; otherwise reads the file of a tokenizer, or the first one
// in a folder (tokenizer_file.h). Throws Error(data) naming the file and what is wrong with it.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path,
                                          SpecialTokens special_tokens = SpecialTokens::token);

// Returns which file load_tokenizer reads and which it leaves out, for the log; "" if it leaves out
// none.
std::string tokenizer_notice(const std::string& name_or_path);

// Throws Error(data) unless the model has an embedding row for every id of the tokenizer.
void check_vocabulary(const Tokenizer& tokenizer, std::int64_t model_vocab_size);

}  // namespace rondo

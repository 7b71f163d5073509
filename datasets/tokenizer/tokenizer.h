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

namespace rondo {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Equal for two tokenizers if and only if they give the same ids.
  virtual std::string name() const = 0;
  virtual std::uint64_t file_hash() const { return 0; }  // XXH3-64 of its tokenizer.json; 0 without one
  virtual std::int64_t vocab_size() const = 0;           // ids are in [0, vocab_size)
  virtual std::optional<std::int32_t> bos() const = 0;   // before every document, if there is one
  virtual std::int32_t eos() const = 0;                  // after every document
  // Appends the ids of `text`, without BOS and EOS.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& out) const = 0;
  // Appends the bytes of `ids`, which go on with the text in `out`: where that is empty they begin a
  // text. BOS and EOS of the byte tokenizer have no bytes. Throws Error(data) for an unknown id.
  virtual void decode(std::span<const std::int32_t> ids, std::string& out) const = 0;
  // Returns how many bytes or characters of all encoded texts had no token and were dropped.
  virtual std::int64_t dropped() const { return 0; }
};

// Ids 0..255 are the bytes, 256 is BOS, 257 is EOS.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "byte"; }
  std::int64_t vocab_size() const override { return 258; }
  std::optional<std::int32_t> bos() const override { return 256; }
  std::int32_t eos() const override { return 257; }
  void encode(std::string_view text, std::vector<std::int32_t>& out) const override;
  void decode(std::span<const std::int32_t> ids, std::string& out) const override;
};

// Returns the byte tokenizer for "bytes"; otherwise reads a tokenizer.json, or the one in a folder.
// Throws Error(data) naming the file and what is wrong with it.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path);

// Throws Error(data) unless the model has an embedding row for every id of the tokenizer.
void check_vocabulary(const Tokenizer& tokenizer, std::int64_t model_vocab_size);

}  // namespace rondo

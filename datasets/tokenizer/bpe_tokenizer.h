// The tokenizer of a file. The ids of a tokenizer.json are equal to those of Hugging Face's
// `tokenizers`, encode(text, add_special_tokens=False), which is the reference below. rank_file.h,
// tekken.h and sentencepiece.h name those of other formats.
//
// The strings of added tokens become these tokens anywhere in a text, as in the reference. With
// SpecialTokens::text those of control tokens, e.g. <|end_of_text|>, are ordinary text, as with
// encode_special_tokens in the reference.
//
// A byte or character without a token is dropped, as in the reference, and counted.
//
// The reference accepts valid UTF-8 only. Here each run of valid UTF-8 is encoded as a separate
// text, and each run of invalid bytes as one word of bytes: those of ByteLevel, or of
// byte_fallback. decode(encode(x)) == x for a vocabulary with all bytes, unless the normalizer or
// the pre_tokenizer adds, changes or removes text. A space that SentencePiece's models put before a
// text is not decoded.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datasets/tokenizer/added_tokens.h"
#include "datasets/tokenizer/tokenizer.h"
#include "datasets/tokenizer/tokenizer_file.h"

namespace rondo {

class BpeTokenizer final : public Tokenizer {
 public:
  // The engine does not change ids: `reference` finds them slowly, for tests.
  explicit BpeTokenizer(TokenizerFile file, SpecialTokens special_tokens = SpecialTokens::token,
                        TokenizerEngine engine = TokenizerEngine::fast);
  ~BpeTokenizer() override;

  std::string name() const override { return name_; }
  std::uint64_t file_hash() const override { return file_hash_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(token_bytes_.size()); }
  std::optional<std::int32_t> bos() const override { return bos_; }
  bool adds_bos() const override { return adds_bos_; }
  std::int32_t eos() const override;
  bool has_eos() const override { return eos_.has_value(); }
  std::vector<std::int32_t> control_tokens() const override { return control_tokens_; }
  SpecialTokens special_tokens() const override { return special_tokens_; }
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::string text_of(std::int32_t id) const override { return token_bytes_[id]; }
  std::int64_t encode(std::string_view text, std::vector<std::int32_t>& out) const override;
  void decode(std::span<const std::int32_t> ids, std::string& out) const override;
  std::int64_t dropped() const override { return dropped_; }

  // Returns the words of a text as views into it, for tests. REQUIRES: `text` is valid UTF-8
  // without added tokens, and the pre_tokenizer adds no space.
  std::vector<std::string_view> words(std::string_view text) const;

 private:
  struct Scratch;  // the workspace of one call of encode(): 10 MiB
  class Borrowed;  // a workspace of scratches_, returned by the destructor

  void encode_words(std::span<const std::string_view> words, std::string_view text, Scratch& scratch,
                    std::vector<std::int32_t>& out) const;
  // Returns how many control tokens the text spells.
  std::int64_t encode_valid(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& out) const;
  void encode_invalid(std::string_view bytes, Scratch& scratch, std::vector<std::int32_t>& out) const;

  std::string path_, name_;
  std::uint64_t file_hash_;
  std::vector<std::string> token_bytes_;
  std::vector<bool> is_token_;
  TokenizerEngine engine_;
  bool words_are_bytes_;
  bool words_are_mapped_;  // characters that are the bytes in the alphabet of ByteLevel
  bool adds_space_;
  std::optional<std::int32_t> bos_, eos_;
  bool adds_bos_;
  SpecialTokens special_tokens_;
  std::vector<std::int32_t> control_tokens_;
  AddedTokens added_, added_normalized_;
  Normalizer normalizer_;
  Splitter splitter_;
  Bpe bpe_;
  // At most as many as there were concurrent calls.
  mutable std::mutex mutex_;
  mutable std::atomic<std::int64_t> dropped_ = 0;
  mutable std::vector<std::unique_ptr<Scratch>> scratches_;
};

}  // namespace rondo

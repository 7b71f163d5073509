// A tokenizer for tests that is not bytewise.
#pragma once

#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

// Encodes a pair of equal bytes as one token. Ids need 4 bytes.
class PairTokenizer final : public Tokenizer {
 public:
  explicit PairTokenizer(std::optional<std::int32_t> bos = 100'510) : bos_(bos) {}
  std::string name() const override { return "pairs"; }
  std::int64_t vocab_size() const override { return 100'512; }
  std::optional<std::int32_t> bos() const override { return bos_; }
  std::int32_t eos() const override { return 100'511; }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    if (token == "<begin>") return 100'510;
    return token == "<end>" ? std::optional(eos()) : std::nullopt;
  }
  std::string text_of(std::int32_t id) const override { return id == eos() ? "<end>" : "<begin>"; }
  std::int64_t encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const bool pair = i + 1 < text.size() && text[i + 1] == text[i];
      out.push_back(pair ? 100'000 + byte : byte);
      i += pair;
    }
    return 0;
  }
  void decode(std::span<const std::int32_t> ids, std::string& out) const override {
    for (const std::int32_t id : ids)
      if (id < 100'256) out.append(id < 256 ? 1 : 2, static_cast<char>(id % 1000));
  }

 private:
  const std::optional<std::int32_t> bos_;
};

}  // namespace rondo

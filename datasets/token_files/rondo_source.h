// Reads Rondo's own token file (format: datasets/token_files/token_writer.h).
#pragma once

#include <cstddef>
#include <vector>

#include "datasets/token_files/token_file.h"
#include "datasets/token_files/token_writer.h"

namespace rondo {

class RondoTokens final : public TokenFile {
 public:
  // Checks the header, its checksum and that the sizes are consistent. Takes a few microseconds for
  // any size.
  RondoTokens(const SourceFile& file, IdLimit limit);

  const char* format() const override { return "Rondo tokens, version 1"; }
  IdType id_type() const override { return header_.token_bytes == 2 ? IdType::u16 : IdType::u32; }
  std::int64_t documents() const override { return static_cast<std::int64_t>(header_.documents); }
  std::int64_t total_tokens() const override { return static_cast<std::int64_t>(header_.tokens); }
  std::int64_t tokens(std::int64_t document) const override {
    return checked_length(document, begin_of(document), end_of(document), total_tokens());
  }
  std::uint64_t id_hash(std::int64_t document) const override;
  std::string tokenizer() const override;
  std::optional<DocumentEnds> ends() const override;
  // Returns what text that spells a control token became; nullopt if the file does not say.
  std::optional<SpecialTokens> special_tokens() const;
  std::int64_t spelled() const { return static_cast<std::int64_t>(header_.spelled); }
  std::string identity() const override;
  // The checksums of the header; reads no block.
  std::uint64_t content(std::int64_t blocks) const override;
  void verify() override;
  IdRange id_range(std::int64_t limit) override;  // the range of all tokens, from the header

  const TokenFileHeader& header() const { return header_; }
  // Returns the bytes of tokens [begin, end) of a document as the file stores them.
  std::vector<std::byte> stored(std::int64_t document, std::int64_t begin, std::int64_t end) const;

 private:
  void read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                std::int64_t* ids) const override;
  std::uint64_t padded_bytes() const { return (header_.tokens * header_.token_bytes + 7) / 8 * 8; }
  // Throws Error(data), "the <what> checksum differs", unless the bytes have this hash.
  void check_hash(std::int64_t offset, std::uint64_t bytes, std::uint64_t hash, const char* what) const;
  std::int64_t place_of(std::int64_t document, std::int64_t token) const {
    const auto first = static_cast<std::int64_t>(begin_of(document));
    return kTokenHeaderBytes + (first + token) * bytes_of(id_type());
  }
  std::uint64_t end_of(std::int64_t document) const {
    return file_.load<std::uint64_t>(index_ + 8 * document);
  }
  std::uint64_t begin_of(std::int64_t document) const { return document == 0 ? 0 : end_of(document - 1); }

  InputFile file_;
  TokenFileHeader header_;
  std::int64_t index_ = 0;  // offset of the index
};

}  // namespace rondo

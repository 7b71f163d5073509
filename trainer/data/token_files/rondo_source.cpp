// The header's checksum comes before its numbers are believed, and each count is bounded by the bytes of the
// file before it is multiplied. Then the parts must add up to the size exactly, so a file that was cut or
// extended does not open. The index is checked entry by entry when it is used, and as a whole by verify()
// alone. Reads of ids first ask whether the file changed, because access to a mapping beyond a shortened end
// would kill the process.
#include "trainer/data/token_files/rondo_source.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>

namespace rondo {

RondoTokens::RondoTokens(const SourceFile& file, IdLimit limit)
    : TokenFile(file, std::move(limit)), map_(file.path, FileUse::data) {
  constexpr const char* kAgain = "Make it again with `rondo data tokenize`";
  if (map_.size() < kTokenHeaderBytes || std::memcmp(map_.data(), kTokenMagic, sizeof header_.magic) != 0)
    fail(
        "a token file begins with \"rondotok\" and a header of 256 bytes. Make one with `rondo data "
        "tokenize`");
  std::memcpy(&header_, map_.data(), sizeof header_);
  if (header_.version != kTokenVersion)
    fail(fmt::format("version {} of the format is unknown here, only {} is. {}", header_.version,
                     kTokenVersion, kAgain));
  if (header_.header_hash != XXH3_64bits(&header_, offsetof(TokenFileHeader, header_hash)))
    fail(fmt::format("the header is damaged: its checksum differs. {}", kAgain));
  if (header_.token_bytes != 2 && header_.token_bytes != 4)
    fail(fmt::format("a token has 2 or 4 bytes, not {}", header_.token_bytes));
  // Nothing is multiplied before it is known to fit: each count is bounded by the bytes that are there.
  const auto body = static_cast<std::uint64_t>(map_.size() - kTokenHeaderBytes);
  if (header_.tokens > body / header_.token_bytes || header_.documents > body / 16 ||
      padded_bytes() + 16 * header_.documents != body)
    fail(
        fmt::format("{} tokens of {} bytes in {} documents do not make a file of {} bytes: it was cut or "
                    "extended. {}",
                    header_.tokens, header_.token_bytes, header_.documents, map_.size(), kAgain));
  index_ = kTokenHeaderBytes + static_cast<std::int64_t>(padded_bytes());
}

std::uint64_t RondoTokens::id_hash(std::int64_t document) const {
  return map_.load<std::uint64_t>(index_ + 8 * (documents() + document));
}

std::string RondoTokens::tokenizer() const {
  return {header_.tokenizer, strnlen(header_.tokenizer, kTokenizerNameBytes)};
}

std::string RondoTokens::identity() const {
  return fmt::format("{} {:016x}", tokenizer(), header_.tokenizer_fingerprint);
}

void RondoTokens::verify() {
  const std::byte* tokens_at = map_.data() + kTokenHeaderBytes;
  const std::uint64_t token_bytes = header_.tokens * header_.token_bytes;
  map_.check_unchanged();
  if (XXH3_64bits(tokens_at, token_bytes) != header_.tokens_hash)
    fail("the tokens are damaged: their checksum differs");
  for (std::uint64_t i = token_bytes; i < padded_bytes(); ++i)
    if (tokens_at[i] != std::byte{0}) fail("the bytes between tokens and index are not zero");
  if (XXH3_64bits(map_.data() + index_, 16 * header_.documents) != header_.index_hash)
    fail("the index is damaged: its checksum differs");
  for (std::int64_t document = 0; document < documents(); ++document) tokens(document);
  if (header_.tokens != (documents() == 0 ? 0 : end_of(documents() - 1)))
    fail("the last document does not end with the tokens");
}

IdRange RondoTokens::id_range(std::int64_t) {
  if (header_.tokens == 0) return {};
  return {header_.least_id, header_.greatest_id};
}

std::span<const std::byte> RondoTokens::stored(std::int64_t document, std::int64_t begin,
                                               std::int64_t end) const {
  RONDO_ASSERT(0 <= begin && begin <= end && end <= tokens(document), "a read outside the document");
  const std::int64_t first = static_cast<std::int64_t>(begin_of(document)) + begin,
                     width = bytes_of(id_type());
  return {map_.data() + kTokenHeaderBytes + first * width, static_cast<std::size_t>((end - begin) * width)};
}

void RondoTokens::read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                           std::int64_t* ids) const {
  map_.check_unchanged();
  load_ids(stored(document, begin, end).data(), id_type(), end - begin, ids);
}

std::unique_ptr<TokenFile> open_rondo_tokens(const SourceFile& file, IdLimit limit) {
  return std::make_unique<RondoTokens>(file, std::move(limit));
}

}  // namespace rondo

// Checks the header's checksum before its numbers are used. Each count is bounded by the size of
// the file before it is multiplied. The sections must then add up to the size exactly, so a
// truncated or extended file does not open. An index entry is checked when it is used; verify()
// checks the whole index.
#include "datasets/token_files/rondo_source.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "datasets/documents/order.h"
#include "support/stop_signal.h"

namespace rondo {

RondoTokens::RondoTokens(const SourceFile& file, IdLimit limit)
    : TokenFile(file, std::move(limit)), file_(file.path, FileUse::data) {
  constexpr const char* kRemedy = "Write it again with `rondo data tokenize`";
  const std::size_t header_bytes = file_.read_some_at(0, std::as_writable_bytes(std::span(&header_, 1)));
  if (header_bytes < sizeof header_ || std::memcmp(header_.magic, kTokenMagic, sizeof header_.magic) != 0)
    fail(
        "a token file begins with \"rondotok\" and a header of 256 bytes. Write one with `rondo data "
        "tokenize`");
  if (header_.version != kTokenVersion)
    fail(fmt::format("version {} of the format is not supported, only {} is. {}", header_.version,
                     kTokenVersion, kRemedy));
  if (header_.header_hash != XXH3_64bits(&header_, offsetof(TokenFileHeader, header_hash)))
    fail(fmt::format("the header is damaged: its checksum differs. {}", kRemedy));
  if (header_.token_bytes != 2 && header_.token_bytes != 4)
    fail(fmt::format("a token has 2 or 4 bytes, not {}", header_.token_bytes));
  if (header_.special_tokens > kNamesOf<SpecialTokens>.size())
    fail(fmt::format("{} is no rule for control tokens. {}", header_.special_tokens, kRemedy));
  // Each count is bounded by the size of the file before it is multiplied, so no product overflows.
  const auto body = static_cast<std::uint64_t>(file_.size() - kTokenHeaderBytes);
  if (header_.tokens > body / header_.token_bytes || header_.documents > body / 16 ||
      padded_bytes() + 16 * header_.documents != body)
    fail(fmt::format(
        "{} tokens of {} bytes in {} documents do not give a file of {} bytes: it was truncated or "
        "extended. {}",
        header_.tokens, header_.token_bytes, header_.documents, file_.size(), kRemedy));
  index_ = kTokenHeaderBytes + static_cast<std::int64_t>(padded_bytes());
}

std::uint64_t RondoTokens::id_hash(std::int64_t document) const {
  return file_.load<std::uint64_t>(index_ + 8 * (documents() + document));
}

std::string RondoTokens::tokenizer() const {
  return {header_.tokenizer, strnlen(header_.tokenizer, kTokenizerNameBytes)};
}

std::optional<DocumentEnds> RondoTokens::ends() const {
  const auto token = [](std::int32_t id) { return id < 0 ? std::nullopt : std::optional(id); };
  return DocumentEnds{token(header_.begin), token(header_.end)};
}

std::optional<SpecialTokens> RondoTokens::special_tokens() const {
  if (header_.special_tokens == 0) return std::nullopt;
  return static_cast<SpecialTokens>(header_.special_tokens - 1);
}

std::string RondoTokens::identity() const {
  return fmt::format("{} {:016x}", tokenizer(), header_.tokenizer_fingerprint);
}

std::uint64_t RondoTokens::content(std::int64_t /*blocks*/) const {
  return mix64(header_.tokens_hash ^ mix64(header_.index_hash));
}

void RondoTokens::check_hash(std::int64_t offset, std::uint64_t bytes, std::uint64_t hash,
                             const char* what) const {
  constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> chunk;
  for (std::uint64_t done = 0; done < bytes; done += chunk.size()) {
    if (stop_requested()) throw Error(ExitCode::peer, "stopped while verifying the tokens of " + path());
    chunk.resize(std::min(kChunkBytes, bytes - done));
    file_.read_at(offset + static_cast<std::int64_t>(done), chunk);
    XXH3_64bits_update(state.get(), chunk.data(), chunk.size());
  }
  if (XXH3_64bits_digest(state.get()) != hash) fail(fmt::format("the {} checksum differs", what));
}

void RondoTokens::verify() {
  const auto end = static_cast<std::int64_t>(header_.tokens * header_.token_bytes);
  check_hash(kTokenHeaderBytes, static_cast<std::uint64_t>(end), header_.tokens_hash,
             "tokens are damaged: their");
  for (std::int64_t place = kTokenHeaderBytes + end; place < index_; ++place)
    if (file_.load<std::uint8_t>(place) != 0) fail("the bytes between tokens and index are not zero");
  check_hash(index_, 16 * header_.documents, header_.index_hash, "index is damaged: its");
  for (std::int64_t document = 0; document < documents(); ++document) tokens(document);
  if (header_.tokens != (documents() == 0 ? 0 : end_of(documents() - 1)))
    fail("the last document does not end with the tokens");
}

IdRange RondoTokens::id_range(std::int64_t) {
  if (header_.tokens == 0) return {};
  return {header_.least_id, header_.greatest_id};
}

std::vector<std::byte> RondoTokens::stored(std::int64_t document, std::int64_t begin,
                                           std::int64_t end) const {
  RONDO_ASSERT(0 <= begin && begin <= end && end <= tokens(document), "a read outside the document");
  std::vector<std::byte> bytes(static_cast<std::size_t>((end - begin) * bytes_of(id_type())));
  file_.read_at(place_of(document, begin), bytes);
  return bytes;
}

void RondoTokens::read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                           std::int64_t* ids) const {
  read_ids_at(file_, place_of(document, begin), id_type(), end - begin, ids);
}

std::unique_ptr<TokenFile> open_rondo_tokens(const SourceFile& file, IdLimit limit) {
  return std::make_unique<RondoTokens>(file, std::move(limit));
}

}  // namespace rondo

// Streams tokens through a buffer and a running hash. The header is written last, when counts and
// hashes are known, and the file is renamed after that. So a file with its final name is complete.
// Narrowing to two bytes combines all ids by OR and checks once: a negative or too large id sets a
// high bit. The index is kept in memory, 16 bytes per document.
#include "datasets/token_files/token_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::int64_t kIdsIn2Bytes = 1 << 16;

template <class T>
void widen_range(const std::byte* ids, std::size_t count, TokenFileHeader& header) {
  T least = std::numeric_limits<T>::max(), greatest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    T id;
    std::memcpy(&id, ids + i * sizeof id, sizeof id);
    least = std::min(least, id);
    greatest = std::max(greatest, id);
  }
  header.least_id = std::min<std::uint32_t>(header.least_id, least);
  header.greatest_id = std::max<std::uint32_t>(header.greatest_id, greatest);
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, const TokenizerMark& mark, bool durable)
    : file_(std::move(path), FileUse::output), durable_(durable), hash_(XXH3_createState()) {
  RONDO_ASSERT(mark.name.size() <= kTokenizerNameBytes, "the name of a tokenizer is at most 160 bytes");
  std::memcpy(header_.magic, kTokenMagic, sizeof header_.magic);
  header_.version = kTokenVersion;
  header_.token_bytes = mark.vocab_size <= kIdsIn2Bytes ? 2 : 4;
  header_.begin = mark.ends.begin.value_or(-1);
  header_.end = mark.ends.end.value_or(-1);
  if (mark.special_tokens) header_.special_tokens = 1 + static_cast<std::uint32_t>(*mark.special_tokens);
  header_.least_id = std::numeric_limits<std::uint32_t>::max();
  header_.tokenizer_fingerprint = mark.fingerprint;
  std::memcpy(header_.tokenizer, mark.name.data(), mark.name.size());
  XXH3_64bits_reset(hash_.get());
  buffer_.reserve(kBufferBytes);
}

void TokenFileWriter::append(std::span<const std::int32_t> ids) {
  if (header_.token_bytes == 4) return append_stored(std::as_bytes(ids));
  narrow_.resize(ids.size());
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    narrow_[i] = static_cast<std::uint16_t>(ids[i]);
    bits |= static_cast<std::uint32_t>(ids[i]);
  }
  RONDO_ASSERT(bits < kIdsIn2Bytes, "the tokenizer returned an id outside its vocabulary");
  append_stored(std::as_bytes(std::span(narrow_)));
}

void TokenFileWriter::append_stored(std::span<const std::byte> ids) {
  const std::size_t count = ids.size() / header_.token_bytes;
  if (header_.token_bytes == 2) {
    widen_range<std::uint16_t>(ids.data(), count, header_);
  } else {
    widen_range<std::uint32_t>(ids.data(), count, header_);
  }
  XXH3_64bits_update(hash_.get(), ids.data(), ids.size());
  put(ids);
  header_.tokens += count;
}

void TokenFileWriter::end_document(std::uint64_t id_hash) {
  ends_.push_back(header_.tokens);
  id_hashes_.push_back(id_hash);
}

void TokenFileWriter::finish() {
  RONDO_ASSERT(header_.tokens == (ends_.empty() ? 0 : ends_.back()), "a document is still open");
  constexpr std::byte kZeros[8] = {};
  const std::uint64_t token_bytes = header_.tokens * header_.token_bytes;
  put(std::span(kZeros).first(static_cast<std::size_t>((8 - token_bytes % 8) % 8)));
  header_.tokens_hash = XXH3_64bits_digest(hash_.get());

  XXH3_64bits_reset(hash_.get());
  for (const std::vector<std::uint64_t>* part : {&ends_, &id_hashes_}) {
    XXH3_64bits_update(hash_.get(), part->data(), part->size() * sizeof(std::uint64_t));
    put(std::as_bytes(std::span(*part)));
  }
  header_.index_hash = XXH3_64bits_digest(hash_.get());
  flush();

  header_.documents = ends_.size();
  if (header_.tokens == 0) header_.least_id = 0;
  header_.header_hash = XXH3_64bits(&header_, offsetof(TokenFileHeader, header_hash));
  file_.write_at(0, std::as_bytes(std::span(&header_, 1)));
  file_.commit(durable_);
}

void TokenFileWriter::put(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) return write_behind(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void TokenFileWriter::flush() {
  write_behind(buffer_);
  buffer_.clear();
}

void TokenFileWriter::write_behind(std::span<const std::byte> bytes) {
  file_.write_at(written_, bytes);
  written_ += std::ssize(bytes);
}

}  // namespace rondo

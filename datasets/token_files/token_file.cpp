// read() is final and a format provides only raw ids, so every id of every format is checked
// against the vocabulary before it is used. Ids are loaded with memcpy, since formats do not align
// them. They are read into the end of the output buffer and widened in place. A document's hash is
// derived from the file's relative path and the document's number, so a split is the same on
// every machine.
#include "datasets/token_files/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "datasets/documents/content.h"
#include "datasets/documents/order.h"
#include "support/error.h"

namespace rondo {
namespace {

struct IdTypeRow {
  const char* name;
  std::int64_t bytes;
};
constexpr std::array<IdTypeRow, 7> kIdTypes = {
    {{"u8", 1}, {"i8", 1}, {"u16", 2}, {"i16", 2}, {"u32", 4}, {"i32", 4}, {"i64", 8}}};

constexpr std::int64_t kChunkTokens = std::int64_t{1} << 16;

template <class T>
void widen(const std::byte* from, std::int64_t count, std::int64_t* ids) {
  for (std::int64_t i = 0; i < count; ++i) {
    T id;
    std::memcpy(&id, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof id);
    ids[i] = static_cast<std::int64_t>(id);  // NOLINT(bugprone-signed-char-misuse): keeps the sign
  }
}

}  // namespace

const char* name_of(IdType type) { return kIdTypes[static_cast<std::size_t>(type)].name; }
std::int64_t bytes_of(IdType type) { return kIdTypes[static_cast<std::size_t>(type)].bytes; }

void read_ids_at(const InputFile& file, std::int64_t offset, IdType type, std::int64_t count,
                 std::int64_t* ids) {
  // Widens in ascending order: an id is never overwritten before it is read.
  const std::span<std::byte> room = std::as_writable_bytes(std::span(ids, static_cast<std::size_t>(count)));
  const std::span<std::byte> stored = room.last(static_cast<std::size_t>(count * bytes_of(type)));
  file.read_at(offset, stored);
  const std::byte* from = stored.data();
  switch (type) {
    case IdType::u8:
      return widen<std::uint8_t>(from, count, ids);
    case IdType::i8:
      return widen<std::int8_t>(from, count, ids);
    case IdType::u16:
      return widen<std::uint16_t>(from, count, ids);
    case IdType::i16:
      return widen<std::int16_t>(from, count, ids);
    case IdType::u32:
      return widen<std::uint32_t>(from, count, ids);
    case IdType::i32:
      return widen<std::int32_t>(from, count, ids);
    case IdType::i64:
      return widen<std::int64_t>(from, count, ids);
  }
}

void TokenFile::read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) {
  RONDO_ASSERT(0 <= begin && begin <= end && end <= tokens(document), "a read outside the document");
  read_ids(document, begin, end, ids);
  check_ids(document, begin, {ids, static_cast<std::size_t>(end - begin)});
}

void TokenFile::check_ids(std::int64_t document, std::int64_t begin,
                          std::span<const std::int64_t> ids) const {
  const auto invalid =
      std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) { return id < 0 || id >= limit_.size; });
  if (invalid != ids.end()) fail_id(document, begin + (invalid - ids.begin()), *invalid);
}

void TokenFile::fail_id(std::int64_t document, std::int64_t token, std::int64_t id) const {
  const std::string token_text = fmt::format("document {}: token {} is {}", document, token, id);
  if (id < 0) fail(token_text + ", but ids are not negative. The file is damaged, or has another format");
  fail(fmt::format(
      "{}, but the {} tokenizer has ids below {}. Set training.tokenizer to the tokenizer of the file",
      token_text, limit_.owner, limit_.size));
}

std::uint64_t TokenFile::id_hash(std::int64_t document) const {
  return mix64(stable_hash(id_) + static_cast<std::uint64_t>(document));
}

std::string TokenFile::identity() const { return fmt::format("{} {}", format(), tokenizer()); }

std::uint64_t TokenFile::content(std::int64_t blocks) const { return sampled_hash(path_, blocks); }

void TokenFile::verify() { id_range(std::numeric_limits<std::int64_t>::max()); }

IdRange TokenFile::id_range(std::int64_t limit) {
  IdRange range;
  std::vector<std::int64_t> ids(kChunkTokens);
  for (std::int64_t document = 0; document < documents() && limit > 0; ++document) {
    const std::int64_t length = std::min(tokens(document), limit);
    limit -= length;
    for (std::int64_t begin = 0; begin < length; begin += kChunkTokens) {
      const std::int64_t end = std::min(begin + kChunkTokens, length);
      read(document, begin, end, ids.data());
      const auto [least, most] = std::minmax_element(ids.begin(), ids.begin() + (end - begin));
      range = {std::min(range.least, *least), std::max(range.most, *most)};
    }
  }
  return range;
}

std::int64_t TokenFile::checked_length(std::int64_t document, std::uint64_t begin, std::uint64_t end,
                                       std::int64_t total) const {
  if (begin > end || end > static_cast<std::uint64_t>(total))
    fail(
        fmt::format("document {}: its tokens, {} to {}, are not within the {} of the file: the index is "
                    "damaged",
                    document, begin, end, total));
  return static_cast<std::int64_t>(end - begin);
}

void TokenFile::fail(const std::string& what) const {
  throw Error(ExitCode::data, fmt::format("{}: {}", path_, what));
}

}  // namespace rondo

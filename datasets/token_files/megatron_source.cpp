// Reads Megatron-LM's indexed data set. X.bin contains the ids, X.idx:
//   bytes   content
//   0..8    "MMIDIDX\0\0"
//   9..16   u64 version, 1
//   17      u8 type of an id: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
//   18..25  u64 sequences S
//   26..33  u64 entries D of the document index
//   34..    S i32 lengths in tokens; S i64 byte offsets in X.bin; D i64 sequence numbers;
//           optionally S i8 modes
// A document is the sequences from one entry of the document index up to the next. The first entry
// is 0, the last S.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "datasets/token_files/token_file.h"

namespace rondo {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kMegatronHeaderBytes = 34;

std::optional<IdType> type_of(std::uint8_t code) {
  constexpr std::array<std::optional<IdType>, 9> kTypes = {std::nullopt, IdType::u8,   IdType::i8,
                                                           IdType::i16,  IdType::i32,  IdType::i64,
                                                           std::nullopt, std::nullopt, IdType::u16};
  return code < kTypes.size() ? kTypes[code] : std::nullopt;
}

std::string index_of(const std::string& bin) { return bin.substr(0, bin.size() - 4) + ".idx"; }

class MegatronTokens final : public TokenFile {
 public:
  MegatronTokens(const SourceFile& file, IdLimit limit)
      : TokenFile(file, std::move(limit)),
        ids_(file.path, FileUse::data),
        index_(index_of(file.path), FileUse::data) {
    std::string magic(kMagic.size(), '\0');
    index_.read_some_at(0, std::as_writable_bytes(std::span(magic)));
    if (index_.size() < kMegatronHeaderBytes || magic != kMagic)
      fail("its .idx does not begin with MMIDIDX and a header of 34 bytes");
    if (const auto version = index_.load<std::uint64_t>(9); version != 1)
      fail(fmt::format("version {} of its .idx is unknown, only 1 is", version));
    const auto code = index_.load<std::uint8_t>(17);
    const std::optional<IdType> type = type_of(code);
    if (!type)
      fail(fmt::format("ids of type {} are not supported; supported are the integer types 1 to 5 and 8",
                       code));
    type_ = *type;
    const auto sequences = index_.load<std::uint64_t>(18), entries = index_.load<std::uint64_t>(26);
    const auto body = static_cast<std::uint64_t>(index_.size() - kMegatronHeaderBytes);
    const bool fits = sequences <= body / 12 && entries <= body / 8;
    const std::uint64_t expected = fits ? 12 * sequences + 8 * entries : 0;
    if (!fits || (body != expected && body != expected + sequences))
      fail(fmt::format("{} sequences and {} entries of documents do not give an .idx of {} bytes", sequences,
                       entries, index_.size()));
    sequences_ = static_cast<std::int64_t>(sequences);
    offsets_ = kMegatronHeaderBytes + 4 * sequences_;
    entries_ = offsets_ + 8 * sequences_;
    documents_ = entries == 0 ? 0 : static_cast<std::int64_t>(entries) - 1;
    if (entries == 0 ? sequences != 0 : (entry(0) != 0 || entry(documents_) != sequences_))
      fail(fmt::format("the index of documents must begin at sequence 0 and end at {}", sequences_));
    if (sequences_ == 0 && ids_.size() > 0)
      fail(fmt::format("its .idx has no sequence, but its .bin has {} bytes: the index is of other data",
                       ids_.size()));
  }

  const char* format() const override { return "Megatron-LM"; }
  IdType id_type() const override { return type_; }
  std::int64_t documents() const override { return documents_; }
  std::int64_t total_tokens() const override { return ids_.size() / bytes_of(type_); }

  std::int64_t tokens(std::int64_t document) const override {
    if (document == counted_.document) return counted_.tokens;
    const auto [first, last] = sequences_of(document);
    std::int64_t sum = 0;
    for (std::int64_t sequence = first; sequence < last; ++sequence) {
      const std::int64_t length = length_of(document, sequence);
      // Sequences may overlap, so the size of the file does not bound their sum.
      if (__builtin_add_overflow(sum, length, &sum) || sum > kMaxTokens)
        fail(fmt::format("document {} is longer than 2^48 tokens: the index is damaged", document));
    }
    counted_ = {document, sum};
    return sum;
  }

 private:
  static constexpr std::int64_t kMaxTokens = std::int64_t{1} << 48;

  std::int64_t entry(std::int64_t place) const { return index_.load<std::int64_t>(entries_ + 8 * place); }

  std::pair<std::int64_t, std::int64_t> sequences_of(std::int64_t document) const {
    const std::int64_t first = entry(document), last = entry(document + 1);
    if (first < 0 || first > last || last > sequences_)
      fail(fmt::format("document {}: its sequences, {} to {}, are not within {}: the index is damaged",
                       document, first, last, sequences_));
    return {first, last};
  }

  std::int64_t offset_of(std::int64_t sequence) const {
    return index_.load<std::int64_t>(offsets_ + 8 * sequence);
  }

  // Returns the length of a sequence after a check that X.bin contains it.
  std::int64_t length_of(std::int64_t document, std::int64_t sequence) const {
    const std::int64_t length = index_.load<std::int32_t>(kMegatronHeaderBytes + 4 * sequence),
                       offset = offset_of(sequence);
    if (length < 0 || offset < 0 || offset > ids_.size() || length > (ids_.size() - offset) / bytes_of(type_))
      fail(fmt::format(
          "document {}: sequence {} of {} tokens at byte {} is not within the {} bytes of the file: "
          "it is truncated, or its .idx is damaged",
          document, sequence, length, offset, ids_.size()));
    return length;
  }

  void read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                std::int64_t* ids) const override {
    const auto [first, last] = sequences_of(document);
    if (cursor_.document != document || cursor_.at > begin) cursor_ = {document, first, 0};
    std::int64_t at = cursor_.at;
    for (std::int64_t sequence = cursor_.sequence; sequence < last && at < end; ++sequence) {
      cursor_ = {document, sequence, at};
      const std::int64_t length = length_of(document, sequence);
      const std::int64_t from = std::max(begin - at, std::int64_t{0}), to = std::min(end - at, length);
      if (from < to) {
        read_ids_at(ids_, offset_of(sequence) + from * bytes_of(type_), type_, to - from, ids);
        ids += to - from;
      }
      at += length;
    }
  }

  // A document may have many sequences: reads in order go on where the last one ended.
  mutable struct { std::int64_t document = -1, tokens = 0; } counted_;
  mutable struct {
    std::int64_t document = -1, sequence = 0, at = 0;  // `at`: offset of the sequence in the document
  } cursor_;
  InputFile ids_, index_;
  IdType type_ = IdType::u16;
  std::int64_t sequences_ = 0, documents_ = 0;
  std::int64_t offsets_ = 0, entries_ = 0;  // where those arrays begin in X.idx
};

}  // namespace

std::unique_ptr<TokenFile> open_megatron(const SourceFile& bin, IdLimit limit) {
  return std::make_unique<MegatronTokens>(bin, std::move(limit));
}

}  // namespace rondo

// Writes Rondo's own token file, *.tokens, which rondo_source.cpp reads. All integers
// are little-endian.
//
//   bytes    content
//   0..7     "rondotok"
//   8..11    u32 version, 1
//   12..15   u32 bytes of a token id, 2 or 4
//   16..23   u64 documents D
//   24..31   u64 tokens N, those before and after documents included
//   32..39   i32 before, i32 after each document; -1: nothing
//   40..47   u32 least and u32 greatest id in the file; both 0 in a file without tokens
//   48..55   u64 fingerprint of the tokenizer: XXH3-64 of its tokenizer.json; 0 for bytes
//   56..63   u64 XXH3-64 of the tokens
//   64..71   u64 XXH3-64 of the index
//   72..231  name of the tokenizer, UTF-8, padded with zeros
//   232..235 u32 what text that spells a control token became: 1 text, 2 the token; 0 where the
//            tokenizer has no control tokens, and in files of earlier versions: the token
//   236..239 zeros
//   240..247 u64 how many control tokens the text spells; in a file of several, those of the parts
//            that end in it (datasets/tokenize.h)
//   248..255 u64 XXH3-64 of bytes 0..247
//   256..    the tokens: N unsigned ids, padded with zeros to a multiple of 8 bytes;
//            the index: D u64 ends of the documents, counted in tokens; D u64 hashes of their ids
//                       (stable_hash, so that the split of a document is the same as for its text)
//   The file ends after the index.
//
// The file is an AtomicFile: a file with its final name is complete.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/tokenizer/document_ends.h"
#include "support/files/atomic_file.h"

namespace rondo {

constexpr char kTokenMagic[] = "rondotok";
constexpr std::uint32_t kTokenVersion = 1;
constexpr std::int64_t kTokenHeaderBytes = 256;
constexpr std::int64_t kTokenizerNameBytes = 160;

struct TokenFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t token_bytes;
  std::uint64_t documents;
  std::uint64_t tokens;
  std::int32_t begin, end;
  std::uint32_t least_id, greatest_id;
  std::uint64_t tokenizer_fingerprint;
  std::uint64_t tokens_hash;
  std::uint64_t index_hash;
  char tokenizer[kTokenizerNameBytes];
  std::uint32_t special_tokens;
  std::uint32_t zero;
  std::uint64_t spelled;
  std::uint64_t header_hash;
};
static_assert(sizeof(TokenFileHeader) == kTokenHeaderBytes);

// Identifies the tokenizer of the ids, and says how documents became ids.
struct TokenizerMark {
  std::string name;  // at most 160 bytes
  std::uint64_t fingerprint = 0;
  std::int64_t vocab_size = 0;  // decides the width: 2 bytes per id up to a size of 65536
  DocumentEnds ends;
  // The tokenizer's training.special_tokens; nullopt if it has no control tokens.
  std::optional<SpecialTokens> special_tokens{};
};

// Writes one token file. Every call may throw a FileError of FileUse::output that names the path.
// Used by one thread at a time.
class TokenFileWriter {
 public:
  // `durable`: finish() syncs the contents and the folder. Without finish() no file remains.
  TokenFileWriter(std::string path, const TokenizerMark& mark, bool durable);

  // Appends to the current document. REQUIRES ids in [0, vocab_size).
  void append(std::span<const std::int32_t> ids);
  void append_stored(std::span<const std::byte> ids);  // as stored in a file of the same width
  void end_document(std::uint64_t id_hash);
  void add_spelled(std::uint64_t count) { header_.spelled += count; }
  // REQUIRES that no document is open.
  void finish();

  std::int64_t tokens() const { return static_cast<std::int64_t>(header_.tokens); }

 private:
  struct HashDeleter {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  void put(std::span<const std::byte> bytes);
  void flush();
  void write_behind(std::span<const std::byte> bytes);

  AtomicFile file_;
  bool durable_;
  TokenFileHeader header_{};
  std::unique_ptr<XXH3_state_t, HashDeleter> hash_;
  std::vector<std::byte> buffer_;
  std::int64_t written_ = kTokenHeaderBytes;  // file offset of the buffer
  std::vector<std::uint64_t> ends_, id_hashes_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace rondo

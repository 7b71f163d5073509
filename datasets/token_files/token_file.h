// Files that hold token ids: what the four formats share. The token ids and the index of documents are read
// when they are needed, so a file opens at once whatever its size; an index entry is checked when it is used.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/documents/files.h"
#include "datasets/token_files/token_source.h"
#include "support/files/input_file.h"

namespace rondo {

enum class IdType { u8, i8, u16, i16, u32, i32, i64 };
const char* name_of(IdType type);
std::int64_t bytes_of(IdType type);
// `count` ids that begin at byte `offset`, widened.
void read_ids_at(const InputFile& file, std::int64_t offset, IdType type, std::int64_t count,
                 std::int64_t* ids);

// Ids are in [0, size); `owner` is the tokenizer that says so.
struct IdLimit {
  std::int64_t size = std::numeric_limits<std::int64_t>::max();
  std::string owner;
};

struct IdRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = -1;  // least > most: no token
};

class TokenFile : public TokenSource {
 public:
  void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) final;
  std::uint64_t id_hash(std::int64_t document) const override;
  std::string identity() const override;
  SourceCounts counts() const final { return {.files = 1}; }

  virtual const char* format() const = 0;
  virtual IdType id_type() const = 0;
  virtual std::int64_t total_tokens() const = 0;
  // "" where the file does not say.
  virtual std::string tokenizer() const { return ""; }
  // Reads everything and throws Error(data) for the first damage found: checksums where the format has them,
  // and always the whole index and every id.
  virtual void verify();
  // Of the first `limit` tokens; REQUIRES an intact index.
  virtual IdRange id_range(std::int64_t limit);

  const std::string& path() const { return path_; }

 protected:
  TokenFile(const SourceFile& file, IdLimit limit)
      : path_(file.path), id_(file.id), limit_(std::move(limit)) {}
  virtual void read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                        std::int64_t* ids) const = 0;
  // The length of a document whose tokens are [begin, end) of `total`. Throws Error(data) where that cannot
  // be.
  std::int64_t checked_length(std::int64_t document, std::uint64_t begin, std::uint64_t end,
                              std::int64_t total) const;
  // Throws Error(data) naming the first of these tokens of the document, from `begin` on, that is no id.
  void check_ids(std::int64_t document, std::int64_t begin, std::span<const std::int64_t> ids) const;
  [[noreturn]] void fail(const std::string& what) const;  // "<path>: <what>", as Error(data)

 private:
  [[noreturn]] void fail_id(std::int64_t document, std::int64_t token, std::int64_t id) const;

  std::string path_, id_;
  IdLimit limit_;
};

// Each throws Error(data) naming the file when it is not of the format, or its sizes do not fit together.
std::unique_ptr<TokenFile> open_rondo_tokens(const SourceFile& file, IdLimit limit);
std::unique_ptr<TokenFile> open_megatron(const SourceFile& bin,
                                         IdLimit limit);  // X.bin; X.idx lies beside it
std::unique_ptr<TokenFile> open_datatrove(const SourceFile& ds, IdLimit limit);  // X.ds; X.ds.index beside it
std::unique_ptr<TokenFile> open_llmc(const SourceFile& bin, IdLimit limit);

// One file of a data path: a token file, or text where `open` is null.
struct NamedFile {
  SourceFile file;
  std::unique_ptr<TokenFile> (*open)(const SourceFile&, IdLimit) = nullptr;
};
// Recognises formats and takes the files that belong together as one. The order stays.
std::vector<NamedFile> recognise_files(const std::vector<SourceFile>& files);

}  // namespace rondo

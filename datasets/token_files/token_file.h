// The common part of the four formats of token files. Ids and the index of documents are read on
// demand, so a file of any size opens at once. An index entry is checked when it is used.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/documents/files.h"
#include "datasets/token_files/token_source.h"
#include "datasets/tokenizer/document_ends.h"
#include "support/files/input_file.h"

namespace rondo {

enum class IdType { u8, i8, u16, i16, u32, i32, i64 };
const char* name_of(IdType type);
std::int64_t bytes_of(IdType type);
// Reads `count` ids at byte `offset` and widens them.
void read_ids_at(const InputFile& file, std::int64_t offset, IdType type, std::int64_t count,
                 std::int64_t* ids);

// The valid ids, [0, size). `owner`: the tokenizer that has this limit.
struct IdLimit {
  std::int64_t size = std::numeric_limits<std::int64_t>::max();
  std::string owner;
};

struct IdRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = -1;  // least > most: no tokens
};

class TokenFile : public TokenSource {
 public:
  void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) final;
  std::uint64_t id_hash(std::int64_t document) const override;
  std::string identity() const override;
  std::uint64_t content(std::int64_t blocks) const override;
  SourceCounts counts() const final { return {.files = 1}; }

  virtual const char* format() const = 0;
  virtual IdType id_type() const = 0;
  virtual std::int64_t total_tokens() const = 0;
  // Returns the tokenizer's name; "" if the file has none.
  virtual std::string tokenizer() const { return ""; }
  // Returns the tokens before and after each document; nullopt if the format does not say.
  virtual std::optional<DocumentEnds> ends() const { return std::nullopt; }
  // Reads the whole file and throws Error(data) for the first damage: checksums where the format
  // has them, the whole index and every id.
  virtual void verify();
  // Returns the range of the first `limit` ids. REQUIRES an intact index.
  virtual IdRange id_range(std::int64_t limit);

  const std::string& path() const { return path_; }

 protected:
  TokenFile(const SourceFile& file, IdLimit limit)
      : path_(file.path), id_(file.id), limit_(std::move(limit)) {}
  virtual void read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                        std::int64_t* ids) const = 0;
  // Returns the length of a document with tokens [begin, end) of `total`. Throws Error(data) for an
  // invalid range.
  std::int64_t checked_length(std::int64_t document, std::uint64_t begin, std::uint64_t end,
                              std::int64_t total) const;
  // Throws Error(data) naming the first invalid id. `ids` are tokens `begin`, `begin` + 1, ... of
  // the document.
  void check_ids(std::int64_t document, std::int64_t begin, std::span<const std::int64_t> ids) const;
  [[noreturn]] void fail(const std::string& what) const;  // throws Error(data), "<path>: <what>"

 private:
  [[noreturn]] void fail_id(std::int64_t document, std::int64_t token, std::int64_t id) const;

  std::string path_, id_;
  IdLimit limit_;
};

// Open a file of their format. Throw Error(data) naming the file when it has another format, or its
// sizes are inconsistent.
std::unique_ptr<TokenFile> open_rondo_tokens(const SourceFile& file, IdLimit limit);
std::unique_ptr<TokenFile> open_megatron(const SourceFile& bin, IdLimit limit);  // also reads X.idx
std::unique_ptr<TokenFile> open_datatrove(const SourceFile& ds, IdLimit limit);  // also reads X.ds.index
std::unique_ptr<TokenFile> open_llmc(const SourceFile& bin, IdLimit limit);

// A file of a data path: a token file, or text if `open` is null.
struct NamedFile {
  SourceFile file;
  std::unique_ptr<TokenFile> (*open)(const SourceFile&, IdLimit) = nullptr;
};
// Merges the files of one data set into one entry. Keeps the order. REQUIRES recognised files.
std::vector<NamedFile> name_files(const std::vector<SourceFile>& files);

}  // namespace rondo

// Reads datatrove's tokenized documents:
//   X.ds           the ids, unsigned, of 2 or 4 bytes
//   X.ds.index     u64 ends of the documents, counted in tokens
//   X.ds.metadata  optional lines "<tokenizer>|<bytes of an id>" (older: without the bytes),
//                  "<tokens>", ...
// The width of an id is the size of X.ds divided by the last end. If the metadata names a width or
// a number of tokens, it must agree.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>

#include "datasets/token_files/token_file.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

class DatatroveTokens final : public TokenFile {
 public:
  DatatroveTokens(const SourceFile& file, IdLimit limit)
      : TokenFile(file, std::move(limit)),
        ids_(file.path, FileUse::data),
        index_(file.path + ".index", FileUse::data) {
    if (index_.size() % 8 != 0)
      fail(fmt::format("its .index has {} bytes, not a multiple of 8", index_.size()));
    const std::uint64_t total = documents() == 0 ? 0 : end_of(documents() - 1);
    const auto size = static_cast<std::uint64_t>(ids_.size());
    if (total == 0 ? size != 0 : (size % total != 0 || (size / total != 2 && size / total != 4)))
      fail(
          fmt::format("{} bytes, but its index ends at token {}, which is not 2 or 4 bytes per token. One of "
                      "the two files is truncated, or belongs to another data set",
                      size, total));
    total_ = static_cast<std::int64_t>(total);
    width_ = total == 0 ? 2 : static_cast<std::int64_t>(size / total);
    read_metadata();
  }

  const char* format() const override { return "datatrove"; }
  IdType id_type() const override { return width_ == 2 ? IdType::u16 : IdType::u32; }
  std::int64_t documents() const override { return index_.size() / 8; }
  std::int64_t total_tokens() const override { return total_; }
  std::int64_t tokens(std::int64_t document) const override {
    return checked_length(document, begin_of(document), end_of(document), total_);
  }
  std::string tokenizer() const override { return tokenizer_; }

 private:
  void read_metadata() {
    constexpr std::int64_t kMaxBytes = 1 << 16;
    std::error_code missing;
    if (!std::filesystem::exists(path() + ".metadata", missing)) return;
    std::istringstream in(read_file(path() + ".metadata", kMaxBytes, FileUse::data));
    std::string first, second;
    if (!std::getline(in, first)) return;
    std::getline(in, second);
    const std::size_t bar = first.rfind('|');
    tokenizer_ = first.substr(0, std::min<std::size_t>(bar, 256));
    const auto number = [](std::string_view text) {
      return number_in<std::int64_t>(text, 0, std::numeric_limits<std::int64_t>::max());
    };
    const auto width = number(bar == std::string::npos ? "" : std::string_view(first).substr(bar + 1));
    if (width && *width != width_ && total_ > 0)
      fail(fmt::format("its .metadata says {} bytes a token, but {} bytes hold {} tokens", *width,
                       ids_.size(), total_));
    const auto count = number(second);
    if (count && *count != total_)
      fail(fmt::format("its .metadata says {} tokens, but its .index {}", *count, total_));
  }

  std::uint64_t end_of(std::int64_t document) const { return index_.load<std::uint64_t>(8 * document); }
  std::uint64_t begin_of(std::int64_t document) const { return document == 0 ? 0 : end_of(document - 1); }

  void read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                std::int64_t* ids) const override {
    const std::int64_t first = static_cast<std::int64_t>(begin_of(document)) + begin;
    read_ids_at(ids_, first * width_, id_type(), end - begin, ids);
  }

  InputFile ids_, index_;
  std::int64_t total_ = 0, width_ = 2;
  std::string tokenizer_;
};

}  // namespace

std::unique_ptr<TokenFile> open_datatrove(const SourceFile& ds, IdLimit limit) {
  return std::make_unique<DatatroveTokens>(ds, std::move(limit));
}

}  // namespace rondo

// Reads llm.c's token file: a header of 256 i32, then unsigned ids up to the end of the file.
// Header word 0 is the magic, word 1 the version, word 2 the number of tokens.
//   magic 20240520, version 1: GPT-2, ids of 2 bytes; every document begins with the
//                              end-of-text token, 50256
//   magic 20240801, version 7: Llama 3, ids of 4 bytes; every document begins with the
//                              begin-of-text token, 128000
// The format has no index. Opening a file reads all ids once, checks them and finds the documents.
// Tokens before the first such token form a document too.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "datasets/token_files/token_file.h"

namespace rondo {
namespace {

constexpr std::int64_t kLlmcHeaderBytes = 1024;

struct Kind {
  std::int32_t magic, version;
  IdType type;
  std::int64_t first;  // first id of every document
};
constexpr std::array<Kind, 2> kKinds = {
    {{20240520, 1, IdType::u16, 50256}, {20240801, 7, IdType::u32, 128000}}};

class LlmcTokens final : public TokenFile {
 public:
  LlmcTokens(const SourceFile& file, IdLimit limit)
      : TokenFile(file, std::move(limit)), file_(file.path, FileUse::data) {
    if (file_.size() < kLlmcHeaderBytes)
      fail("truncated: llm.c's token files begin with a header of 1024 bytes");
    const auto magic = file_.load<std::int32_t>(0), version = file_.load<std::int32_t>(4),
               count = file_.load<std::int32_t>(8);
    for (const Kind& kind : kKinds)
      if (kind.magic == magic && kind.version == version) kind_ = &kind;
    if (kind_ == nullptr)
      fail(fmt::format("magic {} and version {} are not llm.c's 20240520 and 1, or 20240801 and 7", magic,
                       version));
    if (count < 0 || kLlmcHeaderBytes + count * bytes_of(kind_->type) != file_.size())
      fail(fmt::format("the header says {} tokens of {} bytes, but {} bytes follow it", count,
                       bytes_of(kind_->type), file_.size() - kLlmcHeaderBytes));
    total_ = count;
    find_documents();
  }

  const char* format() const override { return kind_ == &kKinds[0] ? "llm.c, GPT-2" : "llm.c, Llama 3"; }
  IdType id_type() const override { return kind_->type; }
  std::optional<DocumentEnds> ends() const override {
    return DocumentEnds{static_cast<std::int32_t>(kind_->first), std::nullopt};
  }
  std::int64_t documents() const override { return static_cast<std::int64_t>(begins_.size()); }
  std::int64_t total_tokens() const override { return total_; }
  std::int64_t tokens(std::int64_t document) const override {
    const auto next = static_cast<std::size_t>(document) + 1;
    return (next < begins_.size() ? begins_[next] : total_) - begins_[next - 1];
  }

 private:
  void find_documents() {
    constexpr std::int64_t kChunk = std::int64_t{1} << 15;
    std::vector<std::int64_t> ids(kChunk);
    if (total_ > 0) begins_.push_back(0);
    for (std::int64_t at = 0; at < total_; at += kChunk) {
      const std::int64_t count = std::min(kChunk, total_ - at);
      read_ids_at(file_, place_of(at), kind_->type, count, ids.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t& id = ids[static_cast<std::size_t>(i)];
        if (id == kind_->first && at + i > 0) begins_.push_back(at + i);
        check_ids(documents() - 1, at + i - begins_.back(), {&id, 1});
      }
    }
  }

  std::int64_t place_of(std::int64_t token) const { return kLlmcHeaderBytes + token * bytes_of(kind_->type); }

  void read_ids(std::int64_t document, std::int64_t begin, std::int64_t end,
                std::int64_t* ids) const override {
    const std::int64_t first = begins_[static_cast<std::size_t>(document)] + begin;
    read_ids_at(file_, place_of(first), kind_->type, end - begin, ids);
  }

  InputFile file_;
  const Kind* kind_ = nullptr;
  std::int64_t total_ = 0;
  std::vector<std::int64_t> begins_;  // of the documents
};

}  // namespace

std::unique_ptr<TokenFile> open_llmc(const SourceFile& bin, IdLimit limit) {
  return std::make_unique<LlmcTokens>(bin, std::move(limit));
}

}  // namespace rondo

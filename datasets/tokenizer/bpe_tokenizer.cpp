// Splits a text three times: into valid and invalid UTF-8, at added tokens, and into words.
// Normalized added tokens are searched only between the other added tokens, as in the reference.
// encode() is const and thread-safe: each call borrows a workspace from a pool, so there are never
// more workspaces than concurrent calls.
#include "datasets/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include "support/error.h"
#include "support/text/utf8.h"

namespace rondo {

struct BpeTokenizer::Scratch {
  RegexScratch regex;
  Bpe::Work bpe;
};

class BpeTokenizer::Borrowed {
 public:
  explicit Borrowed(const BpeTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner_.mutex_);
    if (owner_.scratches_.empty()) return;
    scratch_ = std::move(owner_.scratches_.back());
    owner_.scratches_.pop_back();
  }
  ~Borrowed() {
    if (!scratch_) return;
    const std::lock_guard lock(owner_.mutex_);
    try {
      owner_.scratches_.push_back(std::move(scratch_));
    } catch (const std::bad_alloc&) {  // the next call allocates a workspace
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  Scratch& get() {
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
    return *scratch_;
  }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

BpeTokenizer::BpeTokenizer(TokenizerFile file)
    : path_(std::move(file.path)),
      name_(fmt::format("bpe-{}-{:016x}", file.token_bytes.size(), file.fingerprint)),
      file_hash_(file.file_hash),
      token_bytes_(std::move(file.token_bytes)),
      bos_(file.bos),
      eos_(file.eos),
      splitter_(file.stages),
      bpe_(file.model) {
  for (const AddedToken& token : file.added_tokens)
    (token.normalized ? added_normalized_ : added_).add(token.content, token.id);
}

BpeTokenizer::~BpeTokenizer() = default;

std::int32_t BpeTokenizer::eos() const {
  if (eos_) return *eos_;
  throw Error(
      ExitCode::data,
      fmt::format("{}: there is no eos_token; name one in tokenizer_config.json in the same folder", path_));
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  Borrowed scratch(*this);
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    if (valid > 0) encode_valid(text.substr(0, valid), scratch.get(), out);
    text.remove_prefix(valid);
    const std::size_t invalid = invalid_utf8_prefix(text);
    bpe_.encode(text.substr(0, invalid), scratch.get().bpe, out);
    text.remove_prefix(invalid);
  }
}

void BpeTokenizer::encode_valid(std::string_view text, Scratch& scratch,
                                std::vector<std::int32_t>& out) const {
  const Splitter::Words encode_word = [&](std::string_view word) { bpe_.encode(word, scratch.bpe, out); };
  const auto token = [&](std::int32_t id) { out.push_back(id); };
  added_.cut(
      text,
      [&](std::string_view between) {
        added_normalized_.cut(
            between, [&](std::string_view plain) { splitter_.split(plain, scratch.regex, encode_word); },
            token);
      },
      token);
}

void BpeTokenizer::decode(std::span<const std::int32_t> ids, std::string& out) const {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || token_bytes_[id].empty())
      throw Error(ExitCode::data, fmt::format("{}: no token has the id {}", path_, id));
    out += token_bytes_[id];
  }
}

std::vector<std::string_view> BpeTokenizer::words(std::string_view text) const {
  Borrowed scratch(*this);
  std::vector<std::string_view> result;
  splitter_.split(text, scratch.get().regex, [&](std::string_view word) { result.push_back(word); });
  return result;
}

}  // namespace rondo

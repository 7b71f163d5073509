// Splits a text into valid and invalid UTF-8, then at added tokens. Normalizes what is between
// them, splits it at the normalized added tokens, and the rest into words, as the reference does.
// encode() is const and thread-safe: each call borrows a workspace from a pool, so there are never
// more workspaces than concurrent calls.
#include "datasets/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "datasets/tokenizer/split/byte_level.h"
#include "support/error.h"
#include "support/utf8.h"

namespace rondo {

namespace {
constexpr std::size_t kMaxNamedTokens = 4;  // in a message
}  // namespace

struct BpeTokenizer::Scratch {
  RegexScratch regex;
  Bpe::Work bpe;
  std::string normalized;
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

BpeTokenizer::BpeTokenizer(TokenizerFile file, SpecialTokens special_tokens, TokenizerEngine engine)
    : path_(std::move(file.path)),
      name_(fmt::format("bpe-{}-{:016x}", file.token_bytes.size(), file.fingerprint)),
      file_hash_(file.file_hash),
      token_bytes_(std::move(file.token_bytes)),
      is_token_(std::move(file.is_token)),
      engine_(engine),
      words_are_bytes_(!file.model.characters),
      words_are_mapped_(file.maps_bytes && file.model.characters),
      adds_space_(file.adds_space),
      bos_(file.bos),
      eos_(file.eos),
      adds_bos_(file.adds_bos),
      special_tokens_(special_tokens),
      normalizer_(file.normalizer),
      splitter_(file.stages, engine),
      bpe_(std::move(file.model)) {
  for (const AddedToken& token : file.added_tokens) {
    const bool is_control = token.special || token.id == bos_ || token.id == eos_;
    if (is_control) control_tokens_.push_back(token.id);
    AddedTokenRules rules = token.rules;
    rules.stays_text = is_control && special_tokens == SpecialTokens::text;
    rules.counted = is_control;
    (token.normalized ? added_normalized_ : added_).add(token.pattern, token.id, rules);
  }
  std::sort(control_tokens_.begin(), control_tokens_.end());
}

BpeTokenizer::~BpeTokenizer() = default;

std::int32_t BpeTokenizer::eos() const {
  if (eos_) return *eos_;
  std::string tokens;  // that may end a document
  for (std::size_t i = 0; i < std::min(control_tokens_.size(), kMaxNamedTokens); ++i)
    tokens += (i == 0 ? "; control tokens are " : ", ") + text_of(control_tokens_[i]);
  throw Error(ExitCode::data,
              fmt::format("{}: there is no eos_token{}. Name the one that ends a document in "
                          "training.document_end (--document-end), or in tokenizer_config.json in the same "
                          "folder: {{\"eos_token\": \"...\"}}",
                          path_, tokens));
}

std::optional<std::int32_t> BpeTokenizer::id_of(std::string_view token) const {
  for (std::size_t id = 0; id < token_bytes_.size(); ++id)
    if (is_token_[id] && token_bytes_[id] == token) return static_cast<std::int32_t>(id);
  return std::nullopt;
}

std::int64_t BpeTokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  Borrowed borrowed(*this);
  Scratch& scratch = borrowed.get();
  std::int64_t spelled = 0;
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    if (valid > 0) spelled += encode_valid(text.substr(0, valid), scratch, out);
    text.remove_prefix(valid);
    const std::size_t invalid = invalid_utf8_prefix(text);
    if (invalid > 0) encode_invalid(text.substr(0, invalid), scratch, out);
    text.remove_prefix(invalid);
  }
  if (scratch.bpe.dropped > 0) dropped_ += std::exchange(scratch.bpe.dropped, 0);
  return spelled;
}

// The words of `text`, or copies.
void BpeTokenizer::encode_words(std::span<const std::string_view> words, std::string_view text,
                                Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (engine_ == TokenizerEngine::reference) {
    for (const std::string_view word : words) bpe_.encode_slowly(word, scratch.bpe, out);
    return;
  }
  const std::less_equal<const char*> at_most;
  const char *const end = words.back().data() + words.back().size(), *const text_end =
                                                                         text.data() + text.size();
  const bool in_text = at_most(text.data(), words.front().data()) && at_most(end, text_end);
  bpe_.encode(words, in_text ? text_end : end, scratch.bpe, out);
}

std::int64_t BpeTokenizer::encode_valid(std::string_view text, Scratch& scratch,
                                        std::vector<std::int32_t>& out) const {
  std::int64_t spelled = 0;
  const auto token = [&](std::int32_t id) { out.push_back(id); };
  const auto encode_normalized = [&](std::string_view normalized, bool is_first) {
    spelled += added_normalized_.cut(
        normalized,
        [&](std::string_view plain) {
          splitter_.split(
              plain, is_first && plain.data() == normalized.data(), scratch.regex,
              [&](std::span<const std::string_view> words) { encode_words(words, plain, scratch, out); });
        },
        token);
  };
  spelled += added_.cut(
      text,
      [&](std::string_view between) {
        const bool is_first = between.data() == text.data();
        if (normalizer_.empty()) return encode_normalized(between, is_first);
        scratch.normalized = between;
        const bool keeps_first = normalizer_.apply(scratch.normalized, scratch.regex);
        encode_normalized(scratch.normalized, is_first && keeps_first);
      },
      token);
  return spelled;
}

void BpeTokenizer::encode_invalid(std::string_view bytes, Scratch& scratch,
                                  std::vector<std::int32_t>& out) const {
  if (words_are_mapped_)
    bpe_.encode(token_of_bytes(bytes), scratch.bpe, out);
  else if (words_are_bytes_)
    bpe_.encode(bytes, scratch.bpe, out);
  else
    bpe_.encode_bytes(bytes, scratch.bpe, out);
}

void BpeTokenizer::decode(std::span<const std::int32_t> ids, std::string& out) const {
  const bool strips = adds_space_ && out.empty();
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || !is_token_[id])
      throw Error(ExitCode::data, fmt::format("{}: no token has the id {}", path_, id));
    out += token_bytes_[id];
  }
  if (strips && out.starts_with(' ')) out.erase(0, 1);
}

std::vector<std::string_view> BpeTokenizer::words(std::string_view text) const {
  Borrowed scratch(*this);
  std::vector<std::string_view> result;
  splitter_.split(text, /*is_first=*/true, scratch.get().regex, [&](std::span<const std::string_view> words) {
    result.insert(result.end(), words.begin(), words.end());
  });
  return result;
}

}  // namespace rondo

#include "datasets/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "datasets/tokenizer/bpe_tokenizer.h"
#include "support/error.h"

namespace rondo {

std::optional<std::int32_t> ByteTokenizer::id_of(std::string_view token) const {
  if (token == "<bos>") return bos();
  if (token == "<eos>") return eos();
  if (token.size() != 1) return std::nullopt;
  return static_cast<unsigned char>(token.front());
}

std::string ByteTokenizer::text_of(std::int32_t id) const {
  if (id == bos()) return "<bos>";
  return id == eos() ? "<eos>" : std::string(1, static_cast<char>(id));
}

std::int64_t ByteTokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  const std::size_t before = out.size();
  out.resize(before + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) out[before + i] = static_cast<unsigned char>(text[i]);
  return 0;
}

void ByteTokenizer::decode(std::span<const std::int32_t> ids, std::string& out) const {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size())
      throw Error(ExitCode::data, fmt::format("the byte tokenizer has no id {}; its ids are 0 to 257", id));
    if (id < 256) out += static_cast<char>(id);
  }
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path, SpecialTokens special_tokens) {
  if (name_or_path == "bytes") return std::make_unique<ByteTokenizer>();
  return std::make_unique<BpeTokenizer>(read_tokenizer_file(name_or_path), special_tokens);
}

std::string tokenizer_notice(const std::string& name_or_path) {
  std::error_code error;
  if (!std::filesystem::is_directory(name_or_path, error)) return "";
  std::string others;
  const std::vector<std::filesystem::path> files = tokenizer_files_in(name_or_path);
  for (std::size_t i = 1; i < files.size(); ++i)
    others += (others.empty() ? "" : ", ") + files[i].filename().string();
  if (others.empty()) return "";
  return fmt::format("tokenizer: {} is read, not {}; name a file to read another", files[0].string(), others);
}

void check_vocabulary(const Tokenizer& tokenizer, std::int64_t model_vocab_size) {
  if (tokenizer.vocab_size() <= model_vocab_size) return;
  throw Error(
      ExitCode::data,
      fmt::format("the {} tokenizer has {} token ids, but the model's vocabulary has {}: choose a model with "
                  "vocab_size >= {}, or another tokenizer",
                  tokenizer.name(), tokenizer.vocab_size(), model_vocab_size, tokenizer.vocab_size()));
}

}  // namespace rondo

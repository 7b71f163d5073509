#include "trainer/data/tokenizer.h"

#include <fmt/format.h>

#include "parallel/error.h"

namespace rondo {

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  out.resize(before + text.size());
  for (size_t i = 0; i < text.size(); ++i) out[before + i] = static_cast<unsigned char>(text[i]);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "bytes") return std::make_unique<ByteTokenizer>();
  throw Error(ExitCode::data, fmt::format("{}: tokenizer files cannot be read yet", name_or_path));
}

void check_vocabulary(const Tokenizer& tokenizer, int64_t model_vocab_size) {
  if (tokenizer.vocab_size() <= model_vocab_size) return;
  throw Error(
      ExitCode::data,
      fmt::format("the {} tokenizer has {} token ids, but the model's vocabulary has {}: choose a model with "
                  "vocab_size >= {}, or another tokenizer",
                  tokenizer.name(), tokenizer.vocab_size(), model_vocab_size, tokenizer.vocab_size()));
}

}  // namespace rondo

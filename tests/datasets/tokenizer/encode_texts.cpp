// Encodes texts from a file, for comparisons with other implementations (against_tokenizers.py).
//   encode_texts TOKENIZER ids IN OUT      the ids of each text
//   encode_texts TOKENIZER plain_ids IN OUT  the same, with control tokens as text
//   encode_texts TOKENIZER decoded IN OUT  the bytes of each text, encoded and decoded
//   encode_texts TOKENIZER words IN OUT    the lengths in bytes of the words of each text
//   encode_texts TOKENIZER speed IN        prints the processor time in seconds for all texts
//   encode_texts TOKENIZER reference_speed IN  the same, with the reference engine
//   encode_texts TOKENIZER engines IN      exit 1 if the two engines give different ids
// TOKENIZER is a file. A file of ranks is split by the pattern of pattern.txt in its folder, where
// there is one. IN has for each text its length in bytes (u32, little-endian) and the bytes. OUT
// has for each text the number of numbers (u32) and the numbers (i32).
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "datasets/tokenizer/bpe_tokenizer.h"

namespace rondo {
namespace {

using Numbers = std::vector<std::int32_t>;

std::vector<std::string> read_texts(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::string> texts;
  std::uint32_t length = 0;
  while (in.read(reinterpret_cast<char*>(&length), sizeof length)) {
    std::string text(length, '\0');
    in.read(text.data(), length);
    texts.push_back(std::move(text));
  }
  return texts;
}

void write_numbers(std::ofstream& out, const Numbers& numbers) {
  const auto count = static_cast<std::uint32_t>(numbers.size());
  out.write(reinterpret_cast<const char*>(&count), sizeof count);
  out.write(reinterpret_cast<const char*>(numbers.data()),
            static_cast<std::streamsize>(count * sizeof(std::int32_t)));
}

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TokenizerFile read_tokenizer(const std::string& path) {
  const std::string pattern =
      contents_of((std::filesystem::path(path).parent_path() / "pattern.txt").string());
  if (pattern.empty()) return read_tokenizer_file(path);
  const std::string ranks = contents_of(path);
  const std::array<RankFamily, 1> families = {
      {{.name = "this test",
        .ranks = static_cast<std::size_t>(std::count(ranks.begin(), ranks.end(), '\n')),
        .pattern = pattern,
        .bos = "<|begin|>",
        .eos = "<|end|>"}}};
  return read_tokenizer_file(path, families);
}

double seconds_of_encoding(const BpeTokenizer& tokenizer, const std::vector<std::string>& texts) {
  const std::clock_t begin = std::clock();
  Numbers ids;
  for (const std::string& text : texts) {
    ids.clear();
    tokenizer.encode(text, ids);
  }
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Throws if the reference has other ids than `fast`.
void compare_engines(const BpeTokenizer& fast, const std::string& path,
                     const std::vector<std::string>& texts) {
  const BpeTokenizer reference(read_tokenizer(path), SpecialTokens::token, TokenizerEngine::reference);
  Numbers ids, expected;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ids.clear(), expected.clear();
    fast.encode(texts[i], ids);
    reference.encode(texts[i], expected);
    if (ids != expected) throw std::runtime_error("the engines differ in text " + std::to_string(i));
  }
}

Numbers decoded_bytes(const BpeTokenizer& tokenizer, const std::string& text) {
  Numbers ids;
  tokenizer.encode(text, ids);
  std::string decoded;
  tokenizer.decode(ids, decoded);
  return {reinterpret_cast<const unsigned char*>(decoded.data()),
          reinterpret_cast<const unsigned char*>(decoded.data()) + decoded.size()};
}

int run(const std::vector<std::string>& words) {
  const auto engine = words.at(1) == "reference_speed" ? TokenizerEngine::reference : TokenizerEngine::fast;
  const BpeTokenizer tokenizer(read_tokenizer(words.at(0)),
                               words.at(1) == "plain_ids" ? SpecialTokens::text : SpecialTokens::token,
                               engine);
  const std::vector<std::string> texts = read_texts(words.at(2));
  if (words.at(1).ends_with("speed")) {
    std::printf("%.6f\n", seconds_of_encoding(tokenizer, texts));
    return 0;
  }
  if (words.at(1) == "engines") {
    compare_engines(tokenizer, words.at(0), texts);
    return 0;
  }
  std::ofstream out(words.at(3), std::ios::binary);
  for (const std::string& text : texts) {
    Numbers numbers;
    if (words.at(1) == "ids" || words.at(1) == "plain_ids")
      tokenizer.encode(text, numbers);
    else if (words.at(1) == "decoded")
      numbers = decoded_bytes(tokenizer, text);
    else
      for (const std::string_view word : tokenizer.words(text))
        numbers.push_back(static_cast<std::int32_t>(word.size()));
    write_numbers(out, numbers);
  }
  return out.good() ? 0 : 1;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  try {
    return rondo::run({argv + 1, argv + argc});
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "encode_texts: error: %s\n", problem.what());
    return 1;
  }
}

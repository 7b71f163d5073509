#include "datasets/tokenizer/rank_families.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>

namespace rondo {
namespace {

using Tokens = std::map<std::int32_t, std::string>;

// tiktoken writes \s++$, where $ is the end of the text, and \p{N}{1,3}+, which matches the same.
constexpr std::string_view kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
    R"(\s++(?![\s\S])|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimi =
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Appends tokens, with the ids from `first` on, or after the last token.
class TokenList {
 public:
  explicit TokenList(std::int32_t first) : next_(first) {}
  void add(std::initializer_list<const char*> names) {
    for (const char* name : names) tokens_[next_++] = name;
  }
  // Appends <|NAME_0|> and so on, with the numbers from `first` on.
  void add_numbered(std::string_view name, int count, int first = 0) {
    for (int i = first; i < first + count; ++i) tokens_[next_++] = fmt::format("<|{}_{}|>", name, i);
  }
  std::int32_t next() const { return next_; }
  Tokens take() { return std::move(tokens_); }

 private:
  std::int32_t next_;
  Tokens tokens_;
};

Tokens cl100k_tokens() {
  return {{100257, "<|endoftext|>"},
          {100258, "<|fim_prefix|>"},
          {100259, "<|fim_middle|>"},
          {100260, "<|fim_suffix|>"},
          {100276, "<|endofprompt|>"}};
}

Tokens o200k_tokens() { return {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}; }

// The names of Llama 3.2. Those of 3.0 and 3.1 differ in ids that only chats use.
Tokens llama3_tokens() {
  TokenList list(128000);
  list.add({"<|begin_of_text|>", "<|end_of_text|>"});
  list.add_numbered("reserved_special_token", 2);
  list.add({"<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>",
            "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"});
  list.add_numbered("reserved_special_token", 244, 2);
  return list.take();
}

Tokens llama4_tokens() {
  TokenList list(200000);
  list.add({"<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
            "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>"});
  list.add_numbered("text_post_train_reserved_special_token", 6);
  list.add({"<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"});
  list.add_numbered("text_post_train_reserved_special_token", 61, 8);
  list.add({"<|image_start|>", "<|image_end|>"});
  list.add_numbered("vision_reserved_special_token", 2);
  list.add({"<|tile_x_separator|>", "<|tile_y_separator|>"});
  list.add_numbered("vision_reserved_special_token", 4, 2);
  list.add({"<|image|>"});
  list.add_numbered("vision_reserved_special_token", 1, 6);
  list.add({"<|patch|>"});
  list.add_numbered("vision_reserved_special_token", 1041, 7);
  list.add_numbered("reasoning_reserved_special_token", 8);
  list.add({"<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"});
  list.add_numbered("reserved_special_token", 202048 - list.next());
  return list.take();
}

Tokens qwen_tokens() {
  TokenList list(151643);
  list.add({"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  list.add_numbered("extra", 205);
  return list.take();
}

Tokens kimi_tokens() {
  TokenList list(163584);
  list.add({"[BOS]", "[EOS]"});
  list.add_numbered("reserved_token", 254, list.next());
  return list.take();
}

}  // namespace

std::span<const RankFamily> rank_families() {
  static const std::array<RankFamily, 6> families = {{
      {"cl100k_base", 100256, 0xECB48EC342A2F78F, kCl100k, cl100k_tokens, "", "<|endoftext|>"},
      {"Llama 3", 128000, 0x3EE9D02F49DB2D3E, kLlama3, llama3_tokens, "<|begin_of_text|>", "<|end_of_text|>"},
      {"Qwen", 151643, 0x9B26E81CC61EC711, kQwen, qwen_tokens, "", "<|endoftext|>", /*nfc=*/true},
      {"Kimi K2", 163584, 0, kKimi, kimi_tokens, "[BOS]", "[EOS]"},
      {"o200k_base", 199998, 0x79016C96E403D4F8, kO200k, o200k_tokens, "", "<|endoftext|>"},
      {"Llama 4", 200000, 0x974AD29C016BAA9A, kO200k, llama4_tokens, "<|begin_of_text|>", "<|end_of_text|>"},
  }};
  return families;
}

}  // namespace rondo

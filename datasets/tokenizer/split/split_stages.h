// Reads the pre_tokenizer of a tokenizer.json as stages of a Splitter.
#pragma once

#include <string>
#include <vector>

#include "datasets/tokenizer/split/splitter.h"
#include "support/text/json_view.h"

namespace rondo {

// The depth of sequences within sequences that is read.
constexpr int kMaxNestedSteps = 16;
constexpr std::size_t kMaxSteps = 100;  // of normalizers, and of pre-tokenizers: each walks the whole text

// A pattern of Split or Replace: {"Regex": ...} or {"String": ...}.
struct FilePattern {
  std::string pattern;  // PCRE2's syntax
  std::string meaning;  // kind and text, as in the file
};

// Reports what is not supported to the view's source.
FilePattern read_pattern(const JsonView& pattern);

// Reads the types ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit,
// BertPreTokenizer, Metaspace, CharDelimiterSplit and Sequence. ByteLevel ends in a stage of
// Kind::bytes. Reports everything else to the view's source.
std::vector<SplitStage> read_split_stages(const JsonView& pre_tokenizer);

}  // namespace rondo

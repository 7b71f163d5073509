// The tokens before and after each document: training.document_begin and training.document_end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

struct DocumentEnds {
  std::optional<std::int32_t> begin, end;
  std::int64_t count() const { return begin.has_value() + end.has_value(); }
  bool operator==(const DocumentEnds&) const = default;
};

// The values of the two keys: "auto", "none", or the text of a token.
struct EndNames {
  std::string begin = "auto", end = "auto";
};

// Returns the ends that the keys name. An "auto" end is EOS. An "auto" begin is BOS, unless
// add_bos_token is false. Neither repeats the other: where BOS equals EOS, one separator is between
// two documents. Throws Error(data) for a name that is not one token of the tokenizer, and when an
// "auto" end has no EOS.
DocumentEnds document_ends(const EndNames& names, const Tokenizer& tokenizer);

// Returns whether the ends are BOS and EOS, where the tokenizer has them: those of token files of
// earlier versions.
bool is_standard(const DocumentEnds& ends, const Tokenizer& tokenizer);

// Throws Error(data), which begins with `place`, unless a token file with the ends `stored` is as
// the keys say. "auto" accepts all.
void check_ends(const std::string& place, const DocumentEnds& stored, const EndNames& names,
                const Tokenizer& tokenizer);

// Returns e.g. "<|begin_of_text|> text <|end_of_text|>". Without a tokenizer shows ids.
std::string shown(const DocumentEnds& ends, const Tokenizer* tokenizer);

// Returns e.g. "text that spells a control token stays text (12 such)".
std::string shown(SpecialTokens special_tokens, std::int64_t spelled);

}  // namespace rondo

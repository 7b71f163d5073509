// Reads models of Google's SentencePiece (sentencepiece_model.proto) of the type BPE, such as
// tokenizer.model of Llama 2, Mistral and Gemma.
//
// The ids are those of SentencePieceProcessor.encode(text): text never becomes a control symbol.
// UNIGRAM, WORD and CHAR are refused, as are normalizers other than identity, which the file keeps
// as compiled tables.
#pragma once

#include "datasets/tokenizer/format_parts.h"

namespace rondo {

// Returns whether a file begins as a model of SentencePiece does.
bool is_sentencepiece(std::string_view bytes);

// Tokens of tokenizer_config.json that the model lacks are known by id, and text never becomes one.
// Names BOS and EOS in `ends`.
Vocabulary read_sentencepiece(std::string_view bytes, TokenizerFile& file, FormatEnds& ends,
                              std::vector<std::string>& problems);

}  // namespace rondo

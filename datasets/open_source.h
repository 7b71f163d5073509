// A data path as one source of tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/token_cache.h"
#include "datasets/token_files/token_source.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

// The documents of a data path (datasets/documents/files.h) in the order of its files. Which format a
// file has is decided by its name, and for *.bin and *.idx by its first bytes:
//   *.tokens                    Rondo's own, datasets/token_files/token_writer.h
//   *.bin and *.idx             Megatron-LM
//   *.ds, *.ds.index            datatrove
//   *.bin with llm.c's magic    llm.c
//   anything else               text, *.jsonl, *.packed (datasets/documents/corpus.h)
// Text is read as it lies where the tokenizer gives one token a byte and nothing is compressed; else by
// cached_tokens. `tokenizer` outlives the source. Throws Error(data): as find_files, Corpus and cached_tokens
// do; a malformed token file; a token file that another tokenizer made; no document at all.
std::unique_ptr<TokenSource> open_source(std::string_view paths, const Tokenizer& tokenizer,
                                         const TextOptions& options = {});

// A line where files are there twice, under one name or two: their documents are trained on twice an epoch.
std::vector<std::string> warn_of_repeats(const std::vector<SourceFile>& files);

}  // namespace rondo

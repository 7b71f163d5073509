// Opens a data path as one source of tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/token_cache.h"
#include "datasets/token_files/token_source.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

// Returns the documents of a data path (datasets/documents/files.h) in the order of its files. The
// format of a file follows from its name, and for *.bin and *.idx from its first bytes:
//   *.tokens                    Rondo's own, datasets/token_files/token_writer.h
//   *.bin and *.idx             Megatron-LM
//   *.ds, *.ds.index            datatrove
//   *.bin with llm.c's magic    llm.c
//   anything else               text, *.jsonl, *.packed (datasets/documents/corpus.h)
// Text is read in place when the tokenizer gives one token per byte and no file is compressed,
// otherwise through cached_tokens. `tokenizer` must outlive the source. Throws Error(data) for a
// malformed token file, for a token file of another tokenizer, when there is no document, and as
// find_files, Corpus and cached_tokens do.
std::unique_ptr<TokenSource> open_source(std::string_view paths, const Tokenizer& tokenizer,
                                         const TextOptions& options = {});

// Returns a warning when a file is listed twice, by one path or by several: an epoch then trains on
// its documents twice. Empty without repeats.
std::vector<std::string> warn_of_repeats(const std::vector<SourceFile>& files);

}  // namespace rondo

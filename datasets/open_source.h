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

// Returns the documents of a data path in the order of its files. datasets/select_files.h chooses
// the files and their formats (datasets/documents/format.h).
// Text is read in place when the tokenizer gives one token per byte and no file is compressed,
// otherwise through cached_tokens. `tokenizer` must outlive the source. Throws Error(data) for a
// malformed token file, for a token file of another tokenizer, when there is no document, and as
// select_files, Corpus and cached_tokens do.
std::unique_ptr<TokenSource> open_source(std::string_view paths, const Tokenizer& tokenizer,
                                         const TextOptions& options = {});

}  // namespace rondo

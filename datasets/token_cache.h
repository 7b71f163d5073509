// Text that is tokenized once for training, and kept as a token file: what `rondo data tokenize` makes,
// beside the data. The file is named after what it is made of (the files' names, sizes and times of change,
// the tokenizer, text_key), so what changed is made again, and an old file is never taken for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/files.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

struct TextOptions {
  std::string text_key = "text";  // of a line of JSONL
  // Where token files of text are kept; "": beside the data, DATA's folder/.rondo-tokens.
  std::string token_cache = "";
  // Of the processes of a node one makes them, and the others wait for it without end: whoever started them
  // ends them when that one fails.
  bool makes_cache = true;
};

// The token file of these text files, which `paths` named; made now where it is not there yet, under a lock,
// with its progress in the log. A kill costs little: the next call goes on. Throws as tokenize() does, and
// Error(environment) where its folder cannot be written.
std::string cached_tokens(std::string_view paths, const std::vector<SourceFile>& files,
                          const Tokenizer& tokenizer, const TextOptions& options);

}  // namespace rondo

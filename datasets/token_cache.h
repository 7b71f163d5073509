// Tokenizes text once for training and keeps the result next to the data, as `rondo data tokenize`
// writes it. The name of the token file contains a hash of its inputs: names, sizes, modification
// times, sampled contents and formats of the files, the tokenizer and the options that decide ids.
// So changed inputs have a new file, and an outdated file is never used. A file is verified whole
// before it is used, and made again if it is damaged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/corpus.h"
#include "datasets/tokenizer/document_ends.h"

namespace rondo {

struct TextOptions {
  std::string text_key = "text";  // field of a line of JSONL
  OnBadRecord on_bad_record = OnBadRecord::stop;
  // Folder of the token files; "": .rondo-tokens next to the data.
  std::string token_cache = "";
  // Whether this process tokenizes. One process per node does, and the others wait without a limit:
  // their launcher ends them when that one fails.
  bool makes_cache = true;
  EndNames ends{};
  std::string document_separator = "";
};

// Returns the path of the token file of `files`, which `paths` named. Tokenizes them under a lock
// if the file does not exist or is damaged, and logs the progress, but no warning of the text. A
// call after a kill resumes the work. Throws as tokenize() does, and Error(environment) when the
// folder cannot be written, or when another user owns it or the token file.
std::string cached_tokens(std::string_view paths, const std::vector<SourceFile>& files,
                          const Tokenizer& tokenizer, const TextOptions& options);

// Returns the warnings of the run that made a token file: what it skipped, and what has no token.
std::vector<std::string> cached_warnings(const std::string& tokens);

}  // namespace rondo

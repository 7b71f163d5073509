// Text to token files, on all cores, to be interrupted at any moment.
//
// The documents of the input, in the order of the data path, are cut into parts of about `part_bytes` of
// text. Threads tokenize parts into the folder ".OUTPUT.parts" beside the output, each a token file of its
// own that gets its name when it is whole. When all are there they are joined into the output, and the folder
// goes. Started again after a kill, with the same input and tokenizer, parts that are there and whole (by
// their checksums) are kept; where the input changed (paths, sizes, times) or the tokenizer did, all begins
// again. Until the end the parts need as much disk as the output.
//
// The output depends on the documents, the tokenizer and `shard_tokens` alone: not on threads, parts or
// interruptions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/documents/files.h"
#include "datasets/token_files/token_writer.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

struct TokenizeOptions {
  std::vector<SourceFile> files;  // of text
  std::string input;              // the data path that named them, for messages
  std::string output;             // ends with .tokens
  std::string text_key = "text";  // of a line of JSONL
  int threads = 0;                // 0: all cores
  // 0: one file, `output`. Otherwise a file ends with the document in which it comes to this many tokens, and
  // NAME.tokens becomes NAME-00000-of-00002.tokens, NAME-00001-of-00002.tokens, ...
  std::int64_t shard_tokens = 0;
  std::int64_t part_bytes = std::int64_t{64} << 20;
  bool may_be_empty = false;  // no document is no error
};

// What has been done, and of how much.
struct TokenizeProgress {
  std::int64_t bytes = 0, total_bytes = 0;  // of text
  std::int64_t kept_bytes = 0;              // of `bytes`: in parts of an earlier run
  std::int64_t tokens = 0;
  bool joining = false;  // the parts are whole, and the output is being written
};

struct TokenizeResult {
  std::vector<std::string> files;
  std::int64_t documents = 0, bytes = 0, tokens = 0, kept_parts = 0;
  std::int64_t skipped_binary = 0, skipped_empty = 0;
};

// "1.2 GiB of 5.0 GiB, 300 tokens, 20 MiB/s, 190 s left", `seconds` after it began.
std::string progress_text(const TokenizeProgress& progress, double seconds);

// `report` is called by the calling thread, a few times a second. Throws Error: data (the input, as Corpus
// does; documents that are too long; token files among the input), usage (the output exists), resources
// (disk full), environment (the output's folder cannot be written, or another process is writing there).
TokenizeResult tokenize(const TokenizeOptions& options, const Tokenizer& tokenizer,
                        const std::function<void(const TokenizeProgress&)>& report);

}  // namespace rondo

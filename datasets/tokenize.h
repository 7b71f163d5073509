// Tokenizes text into token files, on all cores; may be interrupted at any time.
//
// The documents of the input, in the order of the data path, are cut into parts of about
// `part_bytes` of text. Threads write the parts to the folder ".OUTPUT.parts" next to the output.
// Each part is a token file that gets its name when it is complete. The parts are then joined into
// the output, and the folder is removed. A second call with the same input and tokenizer keeps the
// parts whose checksums hold. All parts are discarded if the input (paths, sizes, modification
// times), the tokenizer or the ends changed. Until the end, the parts take as much disk space as
// the output.
//
// The output depends on the documents, the tokenizer, the ends and `shard_tokens` alone, not on
// threads, parts or interruptions. Where there are several files, the number of spelled control
// tokens in a header depends on `part_bytes` too: each part's number is in the file that has the
// part's end. Their sum does not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/documents/corpus.h"
#include "datasets/token_files/token_writer.h"
#include "datasets/tokenizer/document_ends.h"

namespace rondo {

struct TokenizeOptions {
  std::vector<SourceFile> files;  // text files; those of unknown format are recognised
  std::string input;              // the data path that named them, for messages
  std::string output;             // ends with .tokens
  std::string text_key = "text";  // field of a line of JSONL
  OnBadRecord on_bad_record = OnBadRecord::stop;
  EndNames ends{};
  std::string document_separator = "";  // of Corpus
  int threads = 0;                      // 0: all cores
  // 0: one file, `output`. Otherwise a file ends with the document that brings it to at least this
  // many tokens, and NAME.tokens becomes NAME-00000-of-00002.tokens,
  // NAME-00001-of-00002.tokens, ...
  std::int64_t shard_tokens = 0;
  std::int64_t part_bytes = std::int64_t{64} << 20;
  bool may_be_empty = false;  // accepts an input without documents
};

// Progress of a call of tokenize().
struct TokenizeProgress {
  std::int64_t bytes = 0, total_bytes = 0;  // of text
  std::int64_t kept_bytes = 0;              // the part of `bytes` that an earlier run tokenized
  std::int64_t tokens = 0;
  bool joining = false;  // all parts are complete, and the output is being written
};

struct TokenizeResult {
  std::vector<std::string> files;
  std::int64_t documents = 0, bytes = 0, tokens = 0, kept_parts = 0;
  std::int64_t skipped_binary = 0, skipped_empty = 0, skipped_bad = 0;
  std::int64_t spelled = 0;  // control tokens that the text spells
  std::int64_t dropped = 0;  // bytes or characters without a token, except in parts of an earlier run
  std::vector<std::string> warnings{};  // of Corpus
};

// Returns e.g. "1.2 GiB of 5.0 GiB, 300 tokens, 20 MiB/s, 190 s left". `seconds`: since the start.
std::string progress_text(const TokenizeProgress& progress, double seconds);

// Calls `report` on the calling thread, a few times a second. Throws Error: data (the input, as
// Corpus does; documents that are too long; token files in the input), usage (the output exists),
// resources (disk full), environment (the output's folder cannot be written, or another process is
// writing the output).
TokenizeResult tokenize(const TokenizeOptions& options, const Tokenizer& tokenizer,
                        const std::function<void(const TokenizeProgress&)>& report);

}  // namespace rondo

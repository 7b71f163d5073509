// What `rondo logits` is given: its words and its token ids. No LibTorch: rondo reads both before it starts
// the worker, so that a mistake is reported in milliseconds, and the worker reads them again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct LogitsOptions {
  std::string folder;     // as find_model (model_source.h) takes it
  std::string tokens;     // token ids as text
  std::string out;        // safetensors file that is written
  std::string gradients;  // safetensors file that is written, or ""
};

// std::nullopt: --help was asked for, and is printed. Throws Error(usage).
std::optional<LogitsOptions> read_logits_options(const std::vector<std::string>& args);

using Sequences = std::vector<std::vector<std::int64_t>>;

// The sequences of a text file, one a line, ids apart by blanks; all of the same length, at least
// `shortest`. Throws Error(data) naming the line and the word.
Sequences read_sequences(const std::string& path, std::size_t shortest);

// Throws Error(data) for an id that the model has no embedding for.
void check_vocabulary(const Sequences& sequences, std::int64_t vocabulary, const std::string& path);

}  // namespace rondo

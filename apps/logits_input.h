// Arguments and token ids of `rondo logits`. No LibTorch: rondo reads both before it starts the
// worker, so mistakes are reported in milliseconds; the worker reads them again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct LogitsOptions {
  std::string folder;     // argument of find_model (model_source.h)
  std::string tokens;     // token ids as text
  std::string out;        // safetensors file to write
  std::string gradients;  // safetensors file to write, or ""
};

// Parses the arguments. Returns nullopt after printing --help. Throws Error(usage).
std::optional<LogitsOptions> read_logits_options(const std::vector<std::string>& args);

using Sequences = std::vector<std::vector<std::int64_t>>;

// Reads the sequences of a text file: one per line, ids separated by blanks, all of the same
// length, at least `shortest`. Throws Error(data) with line and word.
Sequences read_sequences(const std::string& path, std::size_t shortest);

// Throws Error(data) for an id without an embedding.
void check_vocabulary(const Sequences& sequences, std::int64_t vocabulary, const std::string& path);

}  // namespace rondo

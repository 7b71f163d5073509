// Reads token ids with a loop that tracks line and column: "bad number" alone is useless in a file
// of thousands of ids. Refuses sequences of different lengths instead of padding them, because the
// logits are one tensor. Checks the vocabulary separately, as it is known only after the model's
// configuration is read.
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "apps/model_source.h"
#include "apps/worker_options.h"
#include "support/error.h"
#include "support/flags/flags.h"

namespace rondo {
namespace {

constexpr const char* kBlanks = " \t\r";

std::int64_t token_id(std::string_view word, const std::string& place) {
  std::int64_t id = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (problem != std::errc() || end != word.data() + word.size() || id < 0)
    throw Error(ExitCode::data,
                fmt::format("{}: \"{}\" is not a token id; write integers >= 0, separated by blanks", place,
                            word.substr(0, 40)));
  return id;
}

std::vector<std::int64_t> ids_of(std::string_view line, const std::string& place) {
  std::vector<std::int64_t> ids;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    ids.push_back(token_id(line.substr(at, end - at), fmt::format("{}:{}", place, at + 1)));
    at = line.find_first_not_of(kBlanks, end);
  }
  return ids;
}

}  // namespace

std::optional<LogitsOptions> read_logits_options(const std::vector<std::string>& args) {
  LogitsOptions options;
  Flags flags("logits",
              "Writes the logits of a stored model for given tokens: the tensor `logits` [B, T, V], "
              "computed\nin fp32 on the CPU for any dtype of the weights.");
  flags.positional("FROM", flag::text(&options.folder), kModelSource, Need::required);
  flags.value("--tokens", "FILE", flag::text(&options.tokens),
              "text file of token ids separated by blanks, one sequence per line, all of the same length",
              Need::required);
  flags.value("--out", "FILE", flag::text(&options.out), "safetensors file to write", Need::required);
  flags.value("--gradients", "FILE", flag::text(&options.gradients),
              "safetensors file to write: the gradient of the mean next-token cross-entropy "
              "for every parameter");
  if (!flags.read(args)) return std::nullopt;
  return options;
}

Sequences read_sequences(const std::string& path, std::size_t shortest) {
  std::ifstream file(path);
  if (!file)
    throw Error(ExitCode::data, "cannot read " + path + ": " + std::strerror(errno) +
                                    "; --tokens must be a text file with one sequence of token ids per line");
  Sequences sequences;
  for (std::string line; std::getline(file, line);) {
    const std::string place = fmt::format("{}:{}", path, sequences.size() + 1);
    sequences.push_back(ids_of(line, place));
    const std::size_t length = sequences.back().size(), first = sequences.front().size();
    if (length < shortest)
      throw Error(ExitCode::data,
                  fmt::format("{}: {} token ids; a sequence needs at least {}{}", place, length, shortest,
                              shortest == 2 ? " (--gradients needs a next token)" : ""));
    if (length != first)
      throw Error(ExitCode::data, fmt::format("{}: {} token ids, but line 1 has {}; logits are one tensor "
                                              "[B, T, V]; put sequences of other lengths into other files",
                                              place, length, first));
  }
  if (sequences.empty()) throw Error(ExitCode::data, path + ": no token ids; write one sequence per line");
  return sequences;
}

void check_vocabulary(const Sequences& sequences, std::int64_t vocabulary, const std::string& path) {
  for (std::size_t row = 0; row < sequences.size(); ++row)
    for (const std::int64_t id : sequences[row])
      if (id >= vocabulary)
        throw Error(
            ExitCode::data,
            fmt::format(
                "{}:{}: token id {} exceeds the largest id; the model's vocab_size is {}, so ids end at {}",
                path, row + 1, id, vocabulary, vocabulary - 1));
}

}  // namespace rondo

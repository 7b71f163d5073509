#include <fmt/format.h>
#include <fmt/ranges.h>

#include "datasets/loader.h"
#include "support/error.h"

namespace rondo {

void check_same_data(const DataState& saved, const DataState& current) {
  std::vector<std::string> problems;
  const auto compare = [&](const char* field, const auto& theirs, const auto& ours, const char* hint) {
    if (theirs != ours)
      problems.push_back(
          fmt::format("cannot resume the data: {} is {} in the checkpoint, but {} in this run. {}", field,
                      theirs, ours, hint));
  };
  compare("the seed", saved.seed, current.seed, "Set it back, or start a new run");
  compare("the sequence length", saved.seq_len, current.seq_len, "Set it back, or start a new run");
  compare("shuffling", saved.shuffle, current.shuffle, "Set it back, or start a new run");
  if (saved.content && current.content && saved.fingerprint == current.fingerprint)
    compare("the hash of the files' content", fmt::format("{:016x}", *saved.content),
            fmt::format("{:016x}", *current.content),
            "Files with the same names and sizes have other content: restore them, or start a new run");
  compare("the fingerprint of the documents", fmt::format("{:016x}", saved.fingerprint),
          fmt::format("{:016x}", current.fingerprint),
          "Files, their sizes, the weights, the holdout fraction, the tokenizer or what is between documents "
          "changed: restore them, or start a new run");
  if (problems.empty()) return;
  problems.push_back("checkpoint.exclude_from_loading = [\"dataloader\"] starts with the first sample again");
  throw Error(ExitCode::data, fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace rondo

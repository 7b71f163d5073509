// Batches of training steps out of text or token files. Plain C++, no LibTorch.
//
// Note [the data law]. Row i of step s is a function of (documents, weights, seed, s, i) alone:
//   1. A text document becomes BOS (where the tokenizer has one), its tokens, EOS; a document of a token file
//      is what is stored. The documents of an epoch, in an order drawn from (seed, epoch), form one stream of
//      N tokens.
//   2. Sample j of an epoch is stream tokens [j*T, j*T + T]: the first T are inputs, the last T labels. An
//      epoch has floor((N - 1) / T) samples; the tail that fills none is dropped (another order drops other
//      tokens).
//   3. Row i of step s is global sample g = s * global_batch + i (a run that was resumed with another global
//   batch
//      counts on from the sample where it left off): epoch g / samples, place g % samples, and a
//      permutation drawn from (seed, epoch) maps places to samples, so that neighbouring windows of one big
//      document do not meet in one batch. With `shuffle` off both orders are natural. Validation
//      is never shuffled.
//   4. global_batch = dp_size * local_batch * accumulation. Microbatch m of rank r holds rows
//      [(m * dp_size + r) * local_batch, ... + local_batch): 1 and n ranks see the same tokens in a step.
//   5. A document is validation when a hash of its id (path below the named folder, and line number in JSONL)
//      falls in the holdout fraction, otherwise training: disjoint, and the same on every machine and for
//      every seed.
//   6. With weights, every entry of the path is a stream of its own with its own epochs, and global sample g
//   is sample
//      i of entry k by the table of datasets/blend.h. Its seed is `seed` + k, so that equal entries
//      differ.
//
// Threads: a loader is used by one thread at a time. It owns at most one more, which prepares coming steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/context_split.h"
#include "datasets/token_cache.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

constexpr std::int64_t kIgnoreLabel = -100;  // a label that counts in no loss

enum class Split { train, validation };

struct DataOptions {
  std::string path;  // comma-separated files, folders and globs; see datasets/documents/files.h
  // Empty: the documents of all entries of `path` are one stream. Otherwise one weight for each entry.
  std::vector<double> weights{};
  TextOptions text{};
  Split split = Split::train;
  double holdout_fraction = 0.0;  // [0, 1): the share of documents that is validation
  std::uint64_t seed = 42;
  bool shuffle = true;       // ignored for validation
  std::int64_t seq_len = 0;  // T, at least 1
  std::int64_t local_batch = 1;
  std::int64_t accumulation = 1;  // microbatches a step
  std::int64_t dp_rank = 0;
  std::int64_t dp_size = 1;
  ContextShare context{};                 // of the ranks that read the same rows
  bool document_attention = false;        // fills cu_seqlens, and masks the label "next document's BOS"
  std::int64_t num_prefetch_batches = 2;  // steps prepared ahead; 0 prepares inside next()
};

// One microbatch of B = local_batch rows, row-major. Of each row N = T / context.ranks tokens are this
// rank's.
struct Batch {
  std::vector<std::int64_t> tokens;     // [B, N]
  std::vector<std::int64_t> labels;     // [B, N], the following token or kIgnoreLabel
  std::vector<std::int64_t> positions;  // [B, N], from 0 at every row and, with document_attention, document
  // Where in their rows this rank's tokens stand [B, N], and those of all ranks of the context, by rank
  // [B, T]; empty where a rank has whole rows.
  std::vector<std::int32_t> query_positions, key_positions;
  // [B*T + 1]: where sequences begin in the flattened tokens of whole rows, ascending from 0 (every row and
  // document start), then B*T to the end; empty without document_attention.
  std::vector<std::int32_t> cu_seqlens;
  std::int64_t valid_tokens = 0;  // labels that are not kIgnoreLabel
};

// This rank's part of one step.
struct StepBatch {
  std::int64_t step = 0;
  std::vector<Batch> microbatches;  // `accumulation` of them
  std::int64_t valid_tokens = 0;    // over all microbatches of this rank
  std::int64_t tokens = 0;          // accumulation * B * N
  double attention_imbalance = 0;   // ContextSplit::imbalance() of these rows
};

// All that a resumed run needs. Neither the number of ranks nor the global batch is a part of it: whatever
// they are from here on, every sample comes once.
struct DataState {
  std::int64_t step = 0;    // the step that next() gives next
  std::int64_t sample = 0;  // the global sample that it begins with
  std::uint64_t seed = 0;
  std::int64_t seq_len = 0;
  bool shuffle = true;
  std::uint64_t fingerprint = 0;  // of the split's document ids and lengths, the tokenizer, and weights
  bool operator==(const DataState&) const = default;
};

// Throws Error(data) naming every field, except the place, in which a saved state differs from this run's.
void check_same_data(const DataState& saved, const DataState& current);

// What was found, for the log.
struct DataSummary {
  std::int64_t files = 0;              // read as text, JSONL, packed corpus or token file
  std::int64_t documents = 0;          // of this split
  std::int64_t tokens = 0;             // N of one epoch, BOS and EOS included
  std::int64_t samples_per_epoch = 0;  // floor((N - 1) / T); with weights the sum over the sources
  std::int64_t skipped_hidden = 0, skipped_binary = 0, skipped_special = 0, skipped_empty = 0;
  std::vector<std::string> warnings{};  // of SourceCounts
  struct Source {
    std::string path;
    double share = 1;            // of the samples
    double steps_per_epoch = 0;  // how often its documents come round
    std::int64_t documents = 0, tokens = 0, samples_per_epoch = 0;
  };
  std::vector<Source> sources;  // with weights one for each entry of the path, otherwise one
};

class DataLoader {
 public:
  // Indexes the documents (lengths only; contents are read when a step needs them). Throws Error(data) when a
  // path is missing, nothing matches, a file cannot be read, a JSONL line is malformed or the split is
  // smaller than one sample, as open_source does, and Error(config) for weights that do not fit the path.
  // `tokenizer` must outlive the loader. With weights rank 0 logs the share and the epochs of each source.
  DataLoader(const DataOptions& options, const Tokenizer& tokenizer);
  ~DataLoader();  // at any moment: a step that is being prepared is given up

  // The next step, epoch after epoch without end. Throws Error(data) when a file shrank since, or one of text
  // vanished, and Error(resources) when one cannot be read (support/files/input_file.h), and so do later
  // calls until seek(). Warns of reads that are slow while it waits for them.
  StepBatch next();
  // The next call of next() gives `step` (>= 0). Costs nothing but the prepared steps.
  void seek(std::int64_t step);

  DataState state() const;
  // check_same_data, then seek to the state's step.
  void restore(const DataState& state);

  const DataSummary& summary() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rondo

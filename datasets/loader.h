// Makes the batches of training steps from text or token files. Plain C++, no LibTorch.
//
// Note [the data law]: row i of step s is a function of (documents, weights, seed, s, i) alone.
//   1. A text document becomes its tokens between DocumentEnds. A document of a token file is its
//      stored tokens. The documents of an epoch form one stream of N tokens, in
//      an order drawn from (seed, epoch).
//   2. Sample j of an epoch is stream tokens [j*T, j*T + T]: the first T are inputs, the last T
//      labels. An epoch has floor((N - 1) / T) samples. The tail that fills no sample is dropped;
//      another order drops other tokens.
//   3. Row i of step s is global sample g = s * global_batch + i, in the numbers that are left when
//      samples are left out. A run that resumes with another global batch, or leaves out others,
//      continues with the sample after its last one. Sample g has epoch g / samples and place
//      g % samples. A permutation drawn from (seed, epoch) maps places to samples, so
//      that neighbouring windows of one long document do not share a batch. With `shuffle` off
//      both orders are natural. Validation draws its samples in the same way, with a seed of its
//      own, so its rows are the same in every run, and are of all documents.
//   4. global_batch = dp_size * local_batch * accumulation. Microbatch m of rank r holds rows
//      [(m * dp_size + r) * local_batch, ... + local_batch): 1 and n ranks see the same tokens in
//      a step.
//   5. A document belongs to validation if a hash of its id falls in the holdout fraction,
//      otherwise to training. The id is the path below the named folder, and in JSONL the line
//      number too. The splits are disjoint, and equal on every machine and for every seed.
//   6. With weights, every entry of the path is a stream with its own epochs. Global sample g is
//      sample i of entry k by the table of datasets/blend.h. The seed of entry k is `seed` + k, so
//      equal entries have different orders.
//
// Threads: a loader is used by one thread at a time. It owns at most one more, which prepares the
// next steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/context_split.h"
#include "datasets/skips.h"
#include "datasets/token_cache.h"
#include "datasets/token_files/token_source.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

constexpr std::int64_t kIgnoreLabel = -100;  // a label that the loss ignores

enum class Split { train, validation };

struct DataOptions {
  std::string path;  // comma-separated files, folders and globs; see datasets/documents/files.h
  // One weight for each entry of `path`. Empty: the documents of all entries are one stream.
  std::vector<double> weights{};
  TextOptions text{};
  Split split = Split::train;
  double holdout_fraction = 0.0;  // fraction of the documents in the validation split, in [0, 1)
  std::uint64_t seed = 42;
  bool shuffle = true;
  // Ends after one epoch: rows after it have no labels. With weights, each entry ends by itself.
  bool one_epoch = false;
  // With weights: reads entry by entry, so that one epoch has every sample of every entry.
  bool entry_by_entry = false;
  std::int64_t seq_len = 0;  // T, at least 1
  std::int64_t local_batch = 1;
  std::int64_t accumulation = 1;  // microbatches per step
  std::int64_t dp_rank = 0;
  std::int64_t dp_size = 1;
  ContextShare context{};                 // of this rank among those that read the same rows
  std::vector<SampleRange> skips{};       // samples that no step reads
  bool document_attention = false;        // fills cu_seqlens, and masks the label "next document's BOS"
  std::int64_t num_prefetch_batches = 2;  // steps prepared in advance; 0: next() prepares its step itself
};

// One microbatch of B = local_batch rows, row-major. This rank has N = T / context.ranks tokens of
// each row.
struct Batch {
  std::vector<std::int64_t> tokens;  // [B, N]
  std::vector<std::int64_t> labels;  // [B, N], the following token or kIgnoreLabel
  std::vector<std::int64_t>
      positions;  // restart at 0 in every row and, with document_attention, every document
  // Positions within the row: of this rank's tokens [B, N], and of the tokens of all ranks of the
  // context, by rank [B, T]. Empty where a rank has whole rows.
  std::vector<std::int32_t> query_positions, key_positions;
  // [B*T + 1]: where sequences begin in the flattened tokens of whole rows, ascending from 0 (every
  // start of a row or document), padded with B*T. Empty without document_attention.
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

// The position in the data that a resumed run needs. It contains neither the number of ranks nor
// the global batch: both may change on resume, and every sample is still read once.
struct DataState {
  std::int64_t step = 0;    // the step that next() returns next
  std::int64_t sample = 0;  // the first global sample of that step
  std::uint64_t seed = 0;
  std::int64_t seq_len = 0;
  bool shuffle = true;
  std::uint64_t fingerprint = 0;  // of the split's document ids and lengths, the tokenizer, and weights
  // Hash of samples of the files' content; nullopt in states of earlier versions.
  std::optional<std::uint64_t> content{};
  bool operator==(const DataState&) const = default;
};

// Throws Error(data) naming every field in which a saved state differs from this run's. `step` and
// `sample` are not compared, and the content only if both have it.
void check_same_data(const DataState& saved, const DataState& current);

// Counts of the data, for the log. `files` are text, JSONL, packed corpora and token files.
struct DataSummary : SourceCounts {
  std::int64_t documents = 0;          // of this split
  std::int64_t tokens = 0;             // N of one epoch, those around documents included
  std::int64_t samples_per_epoch = 0;  // floor((N - 1) / T); with weights the sum over the sources
  struct Source {
    std::string path;
    double share = 1;            // of the samples
    double steps_per_epoch = 0;  // steps until all its documents have been read once
    std::int64_t documents = 0, tokens = 0, samples_per_epoch = 0;
  };
  std::vector<Source> sources;  // one for each entry of the path with weights, otherwise one
};

class DataLoader {
 public:
  // Indexes the documents. Only lengths are read; a step reads contents when it needs them. Throws
  // Error(data), as open_source does, when a path is missing, nothing matches, a file cannot be
  // read, a line of JSONL is malformed or the split is smaller than one sample. Throws
  // Error(config) for weights that do not fit the path. `tokenizer` must outlive the loader. With
  // weights, rank 0 logs the share and the epochs of each source.
  DataLoader(const DataOptions& options, const Tokenizer& tokenizer);
  ~DataLoader();  // may be called at any time; abandons a step that is being prepared

  // Returns the next step; epochs repeat without end. Throws Error(data) when a file shrank or a
  // text file was removed, and Error(resources) when a file cannot be read
  // (support/files/input_file.h). After an error all calls throw until seek(). Warns of slow reads
  // while it waits for them.
  StepBatch next();
  // Makes the next call of next() return `step` (>= 0). Discards the prepared steps.
  void seek(std::int64_t step);

  DataState state() const;
  // Calls check_same_data, then seeks to the state's step.
  void restore(const DataState& state);
  // Logs which samples are left out from here on, and which ranges lie before this place.
  void log_skips() const;

  const DataSummary& summary() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rondo

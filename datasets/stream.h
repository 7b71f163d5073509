// Cuts the token stream of each epoch into samples: rules 1 to 3 of Note [the data law] in
// datasets/loader.h. Used by one thread at a time.
//
// Memory: 8 bytes per document, 12 for the epoch, and 12 more while the next epoch is prepared. A
// background thread prepares it towards the end of an epoch, so that no step waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/documents/order.h"
#include "datasets/token_files/token_source.h"

namespace rondo {

class SampleStream {
 public:
  // Streams the documents of `source` that are not empty and for which `takes` returns true, in
  // natural order. `takes` is called once for each document. REQUIRES: fewer than 2^32 documents;
  // `source` outlives the stream.
  SampleStream(TokenSource& source, const std::function<bool(std::int64_t document)>& takes,
               std::int64_t seq_len, std::uint64_t seed, bool shuffle);

  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }
  std::int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  std::int64_t samples_per_epoch() const {
    return (tokens_per_epoch_ - 1) / seq_len_;  // 0 when the split is too small
  }

  // Writes the T + 1 tokens of sample `number` (>= 0) to `tokens`. Writes the positions in [0, T]
  // where a document begins to `starts`, ascending. REQUIRES samples_per_epoch() > 0. Throws as
  // TokenSource::read does.
  void read_sample(std::int64_t number, std::int64_t* tokens, std::vector<std::int64_t>& starts);

  // Hash of the source's identity and of the documents' ids and lengths, in natural order.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Epoch {
    std::int64_t number;
    std::vector<std::uint32_t> order;  // place in the stream -> place in documents_
    std::vector<std::int64_t>
        begins;  // place -> its first token in the stream; one more for the stream's end
    SamplePermutation sample_of;
  };
  struct NextEpoch {
    std::int64_t number;
    std::future<Epoch> epoch;
  };
  void add(std::int64_t document, std::int64_t tokens, std::uint64_t id_hash);
  std::int64_t length(std::uint32_t place) const;
  Epoch make_epoch(std::int64_t number) const;
  const Epoch& epoch(std::int64_t number);
  void make_ready(std::int64_t number);

  TokenSource& source_;
  std::vector<std::uint32_t> documents_;
  std::vector<std::uint32_t> lengths_;  // tokens of each document; kLong: see long_lengths_
  std::unordered_map<std::uint32_t, std::int64_t> long_lengths_;  // by place in documents_
  std::int64_t seq_len_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t tokens_per_epoch_ = 0;
  std::uint64_t fingerprint_;
  std::optional<Epoch> epoch_;
  std::optional<NextEpoch> next_;  // last member: its thread reads the others
};

}  // namespace rondo

// The token stream of each epoch, cut into samples: rules 1 to 3 of Note [the data law] in
// trainer/data/loader.h. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/data/documents/order.h"
#include "trainer/data/token_files/token_source.h"

namespace rondo {

class SampleStream {
 public:
  // `documents` of `source` are the split's, in natural order, none of them empty; `source` outlives the
  // stream.
  SampleStream(TokenSource& source, std::vector<std::uint32_t> documents, std::int64_t seq_len,
               std::uint64_t seed, bool shuffle);

  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }
  std::int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  std::int64_t samples_per_epoch() const {
    return (tokens_per_epoch_ - 1) / seq_len_;
  }  // 0 when the split is too small

  // Writes the T + 1 tokens of sample `number` (>= 0) to `tokens`, and to `starts` the places in [0,
  // T] where a document begins, ascending. REQUIRES samples_per_epoch() > 0. Throws as TokenSource::read
  // does.
  void read_sample(std::int64_t number, std::int64_t* tokens, std::vector<std::int64_t>& starts);

  // Of the source's identity and the documents' ids and lengths, in natural order.
  std::uint64_t fingerprint() const;

 private:
  struct Epoch {
    std::int64_t number;
    std::vector<std::uint32_t> order;  // place in the stream -> place in documents_
    std::vector<std::int64_t> begins;  // place -> its first token in the stream; the stream's end is last
    SamplePermutation sample_of;
  };
  const Epoch& epoch(std::int64_t number);

  TokenSource& source_;
  std::vector<std::uint32_t> documents_;
  std::int64_t seq_len_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t tokens_per_epoch_ = 0;
  std::vector<Epoch> epochs_;  // the last two: a batch may lie across their border
};

}  // namespace rondo

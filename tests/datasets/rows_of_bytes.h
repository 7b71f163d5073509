// The byte tokenizer, and batches as rows of ids, for tests of batches.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "datasets/loader.h"
#include "datasets/tokenizer/tokenizer.h"

namespace rondo {

inline const ByteTokenizer kTokenizer;
using Row = std::vector<std::int64_t>;

// Returns the ids of each sample of T tokens and its last label.
inline std::vector<Row> rows_of(const Batch& batch, std::int64_t T) {
  std::vector<Row> rows;
  for (std::size_t at = 0; at < batch.tokens.size(); at += static_cast<std::size_t>(T)) {
    Row row(batch.tokens.begin() + static_cast<std::int64_t>(at),
            batch.tokens.begin() + static_cast<std::int64_t>(at) + T);
    row.push_back(batch.labels[at + static_cast<std::size_t>(T) - 1]);
    rows.push_back(row);
  }
  return rows;
}

inline void check_equal(const StepBatch& a, const StepBatch& b) {
  REQUIRE(a.step == b.step);
  REQUIRE(a.valid_tokens == b.valid_tokens);
  REQUIRE(a.tokens == b.tokens);
  REQUIRE(a.microbatches.size() == b.microbatches.size());
  for (std::size_t m = 0; m < a.microbatches.size(); ++m) {
    REQUIRE(a.microbatches[m].tokens == b.microbatches[m].tokens);
    REQUIRE(a.microbatches[m].labels == b.microbatches[m].labels);
    REQUIRE(a.microbatches[m].positions == b.microbatches[m].positions);
    REQUIRE(a.microbatches[m].cu_seqlens == b.microbatches[m].cu_seqlens);
    REQUIRE(a.microbatches[m].valid_tokens == b.microbatches[m].valid_tokens);
  }
}

}  // namespace rondo

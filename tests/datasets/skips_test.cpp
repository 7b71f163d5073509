// Tests samples that are left out, and resumes with other ranges of them.
#include "datasets/skips.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <set>

#include "datasets/loader.h"
#include "tests/datasets/rows_of_bytes.h"
#include "tests/datasets/temp_folder.h"

namespace rondo {
namespace {

using Rows = std::vector<Row>;

// Data whose samples all differ.
struct Data {
  TempFolder folder;
  DataOptions options;
  Data() {
    std::mt19937 random(7);
    std::string text(4000, ' ');
    for (char& c : text) c = static_cast<char>(1 + random() % 255);
    folder.write("a", text);
    options.path = folder.path();
    options.seq_len = 16;
    options.local_batch = 4;
    options.num_prefetch_batches = 2;
  }
};

Rows next_rows(DataLoader& loader, int steps) {
  Rows rows;
  for (int i = 0; i < steps; ++i)
    for (const Row& row : rows_of(loader.next().microbatches[0], 16)) rows.push_back(row);
  return rows;
}

Rows between(const Rows& rows, std::size_t first, std::size_t end) {
  return {rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

TEST_CASE("kept samples are numbered as if the ranges were not there, whatever their order and overlap") {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<SampleRange> ranges(random() % 5);
    std::set<std::int64_t> left_out;
    for (SampleRange& range : ranges) {
      range.first = static_cast<std::int64_t>(random() % 60);
      range.end = range.first + static_cast<std::int64_t>(random() % 12);
      for (std::int64_t sample = range.first; sample < range.end; ++sample) left_out.insert(sample);
    }
    const SampleSkips skips(ranges);
    std::int64_t kept = 0;
    for (std::int64_t sample = 0; sample < 100; ++sample) {
      REQUIRE(skips.kept_before(sample) == kept);
      if (left_out.contains(sample)) continue;
      REQUIRE(skips.sample_of(kept) == sample);
      ++kept;
    }
  }
}

TEST_CASE("steps read the samples after those that are left out, and no sample is lost besides") {
  Data data;
  DataLoader all(data.options, kTokenizer);
  const Rows rows = next_rows(all, 12);
  data.options.skips = {{8, 20}, {31, 32}};
  DataLoader loader(data.options, kTokenizer);
  Rows expected = between(rows, 0, 8);
  for (const auto& [first, end] : {std::pair{20, 31}, {32, 33}})
    for (const Row& row : between(rows, static_cast<std::size_t>(first), static_cast<std::size_t>(end)))
      expected.push_back(row);
  CHECK(next_rows(loader, 5) == expected);
  CHECK(loader.state().sample == 33);
}

TEST_CASE("a run that resumes with other samples left out goes on with the sample after its last one") {
  Data data;
  DataLoader all(data.options, kTokenizer);
  const Rows rows = next_rows(all, 12);
  DataLoader before(data.options, kTokenizer);
  next_rows(before, 3);
  const DataState saved = before.state();
  REQUIRE(saved.sample == 12);

  // The run has read all samples of the first range, and some of the second.
  data.options.skips = {{0, 4}, {10, 20}};
  DataLoader after(data.options, kTokenizer);
  after.restore(saved);
  CHECK(after.state().sample == 20);
  CHECK(next_rows(after, 2) == between(rows, 20, 28));
  const DataState later = after.state();
  CHECK(later.step == 5);

  // Without the ranges nothing is read again.
  data.options.skips = {};
  data.options.local_batch = 2;
  DataLoader without(data.options, kTokenizer);
  without.restore(later);
  CHECK(next_rows(without, 2) == between(rows, 28, 32));
}

}  // namespace rondo

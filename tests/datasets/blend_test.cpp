#include "datasets/blend.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "datasets/loader.h"
#include "tests/datasets/rows_of_bytes.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

// Writes a token file whose documents contain each of `count` different pairs of ids once.
std::string write_source(const TempFolder& folder, const std::string& name, std::int64_t mark,
                         std::int64_t count) {
  Documents documents;
  for (std::int64_t i = 0; i < count; ++i) documents.push_back({mark, i, mark, i});
  return folder.write(name, rondo_bytes(documents));
}

DataOptions options_for(const std::string& path, std::vector<double> weights) {
  DataOptions options;
  options.path = path;
  options.weights = std::move(weights);
  options.seq_len = 3;
  options.num_prefetch_batches = 0;
  return options;
}

std::string config_error(const std::vector<double>& weights, std::size_t sources) {
  try {
    check_weights(weights, sources);
  } catch (const Error& error) {
    return error.code() == ExitCode::config ? error.what() : "wrong exit code";
  }
  return "no error";
}

}  // namespace

TEST_CASE("every block has the exact number of samples of each source, numbered without gaps") {
  for (const std::vector<double>& weights : {std::vector{1.0},
                                             {0.5, 0.5},
                                             {0.7, 0.2, 0.1},
                                             {0.005, 1.0},
                                             {3e300, 1e300, 1e297, 2e300},
                                             {1.0, 1.0, 1.0}}) {
    const Blend blend(weights);
    std::vector<std::int64_t> next(weights.size());
    for (std::int64_t sample = 0; sample < 3 * blend.block(); ++sample) {
      const Blend::Place place = blend.place_of(sample);
      REQUIRE(place.number == next[static_cast<std::size_t>(place.source)]++);
      if ((sample + 1) % blend.block() != 0) continue;
      std::int64_t sum = 0;
      for (std::size_t k = 0; k < weights.size(); ++k) {
        REQUIRE(next[k] == (sample + 1) / blend.block() * blend.samples_in_block(k));
        sum += blend.samples_in_block(k);
      }
      REQUIRE(sum == blend.block());
    }
    double total = 0;
    for (const double weight : weights) total += weight;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double share =
          static_cast<double>(blend.samples_in_block(k)) / static_cast<double>(blend.block());
      CHECK(std::abs(share - weights[k] / total) <= 0.01 * weights[k] / total);
    }
  }
}

TEST_CASE("a block is 4096 samples, and larger only where a small share would be off by more than 1 %") {
  CHECK(Blend({0.7, 0.2, 0.1}).block() == 4096);
  CHECK(Blend({0.99, 0.01}).block() == 4096);
  CHECK(Blend({0.995, 0.005}).block() == 8192);  // 41 for 40.96, where 20 for 20.48 is 2.3 % off
  CHECK(Blend({0.9999, 0.0001}).block() > 100'000);
}

TEST_CASE("a share that no block holds to 1 % is refused with the share that it would become") {
  CHECK(config_error({0.9999, 0.0001}, 2) == "no error");
  CHECK(
      config_error({1.0, 1e-9}, 2) ==
      "training.dataset_weights[1] = 1e-09 asks for 1e-09 of the samples, which would become 1 of 1048576 = "
      "9.5e-07; a share of at least 5e-05 is kept to 1 %: raise the weight, or leave the source out");
  CHECK_THAT(config_error({1e-300, 1e300}, 2), ContainsSubstring("training.dataset_weights[0] = 1e-300"));
}

TEST_CASE("within a block every source is less than two samples away from its share") {
  const Blend blend({0.6, 0.3, 0.1});
  std::vector<std::int64_t> taken(3);
  for (std::int64_t sample = 0; sample < blend.block(); ++sample) {
    ++taken[static_cast<std::size_t>(blend.place_of(sample).source)];
    for (std::size_t k = 0; k < 3; ++k)
      REQUIRE(std::abs(static_cast<double>(taken[k]) -
                       static_cast<double>(blend.samples_in_block(k) * (sample + 1)) /
                           static_cast<double>(blend.block())) < 2);
  }
}

TEST_CASE("weights that are not one positive number for each source are refused") {
  CHECK(config_error({1, 2}, 2) == "no error");
  CHECK_THAT(config_error({1}, 2),
             ContainsSubstring("has 1 weights, but training.dataset_path names 2 sources"));
  CHECK_THAT(config_error({1, 0}, 2), ContainsSubstring("0 must be above 0 and finite"));
  CHECK_THAT(config_error({1, -1}, 2), ContainsSubstring("-1 must be above 0"));
  CHECK_THAT(config_error({1, std::nan("")}, 2), ContainsSubstring("nan must be above 0"));
  CHECK_THAT(config_error({1, std::numeric_limits<double>::infinity()}, 2), ContainsSubstring("inf must be"));
  CHECK_THAT(config_error(std::vector<double>(5000, 1), 5000), ContainsSubstring("at most 4096 sources"));
}

TEST_CASE("a blended data set has every sample of each source once per epoch, for any number of ranks") {
  const TempFolder folder;
  const std::string paths =
      write_source(folder, "a.tokens", 200, 40) + ", " + write_source(folder, "b.tokens", 201, 25);
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    std::map<std::int64_t, std::vector<Row>> rows;  // by source, in the order of the global batch
    std::vector<std::unique_ptr<DataLoader>> loaders;
    DataOptions options = options_for(paths, {0.75, 0.25});
    options.dp_size = ranks;
    for (options.dp_rank = 0; options.dp_rank < ranks; ++options.dp_rank)
      loaders.push_back(std::make_unique<DataLoader>(options, kTokenizer));
    const DataSummary summary = loaders[0]->summary();
    REQUIRE(summary.sources.size() == 2);
    CHECK(summary.sources[0].share == 0.75);
    CHECK(summary.sources[0].steps_per_epoch ==
          static_cast<double>(summary.sources[0].samples_per_epoch) / (0.75 * static_cast<double>(ranks)));
    for (std::int64_t step = 0; step * ranks < 400; ++step)
      for (auto& loader : loaders) {
        const Batch batch = loader->next().microbatches[0];
        Row row = batch.tokens;
        row.push_back(batch.labels.back());
        const bool first = std::find(row.begin(), row.end(), 200) != row.end();
        REQUIRE(first != (std::find(row.begin(), row.end(), 201) != row.end()));
        rows[first ? 0 : 1].push_back(row);
      }
    for (std::int64_t source = 0; source < 2; ++source) {
      DataOptions alone = options_for(split_paths(paths)[static_cast<std::size_t>(source)], {});
      alone.seed += static_cast<std::uint64_t>(source);
      DataLoader loader(alone, kTokenizer);
      const auto samples = static_cast<std::size_t>(loader.summary().samples_per_epoch);
      REQUIRE(rows[source].size() > 2 * samples);
      for (std::size_t i = 0; i < 2 * samples; ++i) {  // whole epochs of the source alone
        const Batch batch = loader.next().microbatches[0];
        Row row = batch.tokens;
        row.push_back(batch.labels.back());
        REQUIRE(rows[source][i] == row);
      }
    }
  }
}

TEST_CASE("one epoch entry by entry has every sample of every weighted source once") {
  const TempFolder folder;
  const std::string paths =
      write_source(folder, "a.tokens", 200, 40) + ", " + write_source(folder, "b.tokens", 201, 25);
  DataOptions options = options_for(paths, {0.99, 0.01});
  options.one_epoch = options.entry_by_entry = true;
  DataLoader loader(options, kTokenizer);
  const DataSummary summary = loader.summary();
  std::map<bool, std::int64_t> rows;  // of each source
  for (std::int64_t i = 0; i < summary.samples_per_epoch; ++i) {
    const Batch batch = loader.next().microbatches[0];
    REQUIRE(batch.valid_tokens > 0);
    ++rows[std::find(batch.tokens.begin(), batch.tokens.end(), 201) != batch.tokens.end()];
  }
  CHECK(rows[false] == summary.sources[0].samples_per_epoch);
  CHECK(rows[true] == summary.sources[1].samples_per_epoch);
  CHECK(loader.next().microbatches[0].valid_tokens == 0);
}

TEST_CASE("a blended run resumes with the same state, and other weights or sources are another data set") {
  const TempFolder folder;
  const std::string a = write_source(folder, "a.tokens", 200, 40),
                    b = write_source(folder, "b.tokens", 201, 25);
  DataLoader reference(options_for(a + "," + b, {3, 1}), kTokenizer),
      resumed(options_for(a + "," + b, {3, 1}), kTokenizer);
  for (int step = 0; step < 5000; ++step) reference.next();
  resumed.restore(reference.state());
  for (int step = 0; step < 50; ++step)
    REQUIRE(resumed.next().microbatches[0].tokens == reference.next().microbatches[0].tokens);
  for (const DataOptions& other : {options_for(a + "," + b, {1, 1}), options_for(b + "," + a, {3, 1}),
                                   options_for(a + "," + b, {}), options_for(a + "," + a, {3, 1})})
    CHECK_THAT(data_error([&] { DataLoader(other, kTokenizer).restore(reference.state()); }),
               ContainsSubstring("the fingerprint of the documents is"));
}

TEST_CASE("a single weight changes nothing") {
  const TempFolder folder;
  const std::string path = write_source(folder, "a.tokens", 200, 40);
  DataLoader plain(options_for(path, {}), kTokenizer), weighted(options_for(path, {0.3}), kTokenizer);
  CHECK(plain.state() == weighted.state());
  for (int step = 0; step < 100; ++step)
    REQUIRE(plain.next().microbatches[0].tokens == weighted.next().microbatches[0].tokens);
}

TEST_CASE("a source that is too small for one sample is named") {
  const TempFolder folder;
  const std::string a = write_source(folder, "a.tokens", 200, 40), b = folder.write("b.txt", "");
  folder.write("c.tokens", rondo_bytes({{1, 2}}));
  CHECK_THAT(data_error([&] {
               DataLoader(options_for(a + "," + folder.path("c.tokens"), {1, 1}), kTokenizer);
             }),
             ContainsSubstring("c.tokens\": the training split has 2 tokens in 1 of 1 documents"));
}

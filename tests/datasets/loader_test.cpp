#include "datasets/loader.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "tests/datasets/rows_of_bytes.h"
#include "tests/datasets/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t kBos = 256, kEos = 257;

// Documents of random bytes and lengths, some shorter and some much longer than a sample.
void write_documents(const TempFolder& folder, int count, std::mt19937& random) {
  for (int i = 0; i < count; ++i) {
    std::string text(1 + random() % (random() % 4 == 0 ? 300 : 20), ' ');
    for (char& c : text) c = static_cast<char>(1 + random() % 255);
    folder.write("doc" + std::to_string(i), text);
  }
}

DataOptions options_for(const TempFolder& folder, std::int64_t seq_len) {
  DataOptions options;
  options.path = folder.path();
  options.seq_len = seq_len;
  options.num_prefetch_batches = 0;
  return options;
}

// Returns the rows of one epoch in the order of one rank with batches of one.
std::vector<Row> epoch_rows(DataOptions options, std::int64_t epoch) {
  options.local_batch = options.accumulation = options.dp_size = 1;
  DataLoader loader(options, kTokenizer);
  const std::int64_t samples = loader.summary().samples_per_epoch;
  loader.seek(epoch * samples);
  std::vector<Row> rows;
  for (std::int64_t j = 0; j < samples; ++j)
    rows.push_back(rows_of(loader.next().microbatches[0], options.seq_len)[0]);
  return rows;
}

}  // namespace

TEST_CASE("documents are packed with BOS and EOS, and samples overlap by one label") {
  TempFolder folder;
  folder.write("a", "ab");
  folder.write("b", "cdefg");
  DataOptions options = options_for(folder, 4);
  options.shuffle = false;
  // The stream is BOS a b EOS BOS c d e f g EOS: 11 tokens, so samples 0..4 and 4..8. Two tokens
  // are dropped.
  DataLoader loader(options, kTokenizer);
  CHECK(loader.summary().documents == 2);
  CHECK(loader.summary().tokens == 11);
  CHECK(loader.summary().samples_per_epoch == 2);
  const Batch first = loader.next().microbatches[0];
  CHECK(first.tokens == Row{kBos, 'a', 'b', kEos});
  CHECK(first.labels == Row{'a', 'b', kEos, kBos});
  CHECK(first.valid_tokens == 4);
  CHECK(first.cu_seqlens.empty());
  const Batch second = loader.next().microbatches[0];
  CHECK(second.tokens == Row{kBos, 'c', 'd', 'e'});
  CHECK(second.labels == Row{'c', 'd', 'e', 'f'});
  CHECK(loader.next().microbatches[0].tokens == first.tokens);  // the next epoch
}

TEST_CASE(
    "positions restart at rows and documents, and document attention masks the label that crosses a border") {
  TempFolder folder;
  folder.write("a", "ab");
  folder.write("b", "c");
  folder.write("c", "defghijk");
  DataOptions options = options_for(folder, 8);
  options.shuffle = false;
  options.local_batch = 2;
  options.document_attention = true;
  // BOS a b EOS BOS c EOS BOS | d e f g h i j k EOS
  DataLoader loader(options, kTokenizer);
  const StepBatch step = loader.next();
  const Batch& batch = step.microbatches[0];
  CHECK(batch.tokens ==
        Row{kBos, 'a', 'b', kEos, kBos, 'c', kEos, kBos, 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k'});
  CHECK(batch.labels == Row{'a', 'b', kEos, kIgnoreLabel, 'c', kEos, kIgnoreLabel, 'd',  //
                            'e', 'f', 'g', 'h', 'i', 'j', 'k', kEos});
  CHECK(batch.positions == Row{0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<std::int32_t> borders{0, 4, 7, 8};
  borders.resize(17, 16);
  CHECK(batch.cu_seqlens == borders);
  CHECK(batch.valid_tokens == 14);
  CHECK(step.valid_tokens == 14);
  CHECK(step.tokens == 16);
}

TEST_CASE("a label that is the next document's BOS is masked at the end of a row too") {
  TempFolder folder;
  folder.write("a", "ab");
  folder.write("b", "cd");
  DataOptions options = options_for(folder, 4);
  options.shuffle = false;
  options.document_attention = true;
  const Batch batch = DataLoader(options, kTokenizer).next().microbatches[0];
  CHECK(batch.tokens == Row{kBos, 'a', 'b', kEos});
  CHECK(batch.labels == Row{'a', 'b', kEos, kIgnoreLabel});
  CHECK(batch.cu_seqlens == std::vector<std::int32_t>{0, 4, 4, 4, 4});
}

TEST_CASE("in natural order the rows are the windows of the concatenated documents") {
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    TempFolder folder;
    write_documents(folder, 1 + static_cast<int>(random() % 30), random);
    DataOptions options = options_for(folder, 1 + static_cast<std::int64_t>(random() % 40));
    options.shuffle = false;
    std::map<std::string, std::string> documents;  // sorted by name, as in the corpus
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      std::ifstream in(entry.path(), std::ios::binary);
      documents[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    Row stream;
    for (const auto& [name, text] : documents) {
      stream.push_back(kBos);
      for (const char c : text) stream.push_back(static_cast<unsigned char>(c));
      stream.push_back(kEos);
    }
    const std::int64_t T = options.seq_len;
    if (static_cast<std::int64_t>(stream.size()) < T + 1) continue;
    std::vector<Row> expected;
    for (auto at = stream.begin(); stream.end() - at >= T + 1; at += T) expected.emplace_back(at, at + T + 1);
    REQUIRE(epoch_rows(options, 0) == expected);
    REQUIRE(epoch_rows(options, 3) == expected);
  }
}

TEST_CASE("every sample of an epoch appears exactly once in the shuffled epoch") {
  // A single document keeps the stream the same, so the shuffled rows must be the natural ones in
  // another order.
  TempFolder folder;
  std::string text;
  for (int i = 0; i < 700; ++i) text += std::to_string(i) + " ";
  folder.write("doc", text);
  DataOptions options = options_for(folder, 16);
  std::vector<Row> shuffled[2] = {epoch_rows(options, 0), epoch_rows(options, 1)};
  CHECK(shuffled[0] != shuffled[1]);
  options.shuffle = false;
  std::vector<Row> natural = epoch_rows(options, 0);
  CHECK(shuffled[0] != natural);
  std::sort(natural.begin(), natural.end());
  for (std::vector<Row>& rows : shuffled) {
    std::sort(rows.begin(), rows.end());
    CHECK(rows == natural);
  }
}

TEST_CASE(
    "a shuffled epoch has the text of every document except the dropped tail, in another order than the "
    "last") {
  std::mt19937 random(2);
  for (int round = 0; round < 5; ++round) {
    TempFolder folder;
    write_documents(folder, 40, random);
    DataOptions options = options_for(folder, 7);
    options.seed = random();
    std::map<std::int64_t, std::int64_t> counts;  // token -> count
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      std::ifstream in(entry.path(), std::ios::binary);
      for (char c; in.get(c);) ++counts[static_cast<unsigned char>(c)];
      ++counts[kBos], ++counts[kEos];
    }
    const std::vector<Row> epochs[2] = {epoch_rows(options, 0), epoch_rows(options, 1)};
    CHECK(epochs[0] != epochs[1]);
    for (const std::vector<Row>& rows : epochs) {
      std::map<std::int64_t, std::int64_t> remaining = counts;
      std::int64_t dropped = DataLoader(options, kTokenizer).summary().tokens;
      for (const Row& row : rows) {
        for (std::size_t t = 0; t + 1 < row.size(); ++t) --remaining[row[t]], --dropped;
      }
      REQUIRE(dropped <= options.seq_len);
      for (const auto& [token, count] : remaining) REQUIRE((0 <= count && count <= dropped));
    }
  }
}

TEST_CASE("the documents of each epoch are whole and in another order") {
  TempFolder folder;
  for (int i = 0; i < 9; ++i) folder.write(std::to_string(i), std::string(3, static_cast<char>('a' + i)));
  const DataOptions options = options_for(folder, 9 * 5 - 1);  // one sample contains the epoch
  std::set<std::string> orders;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const Row row = epoch_rows(options, epoch).at(0);
    std::string order;
    for (std::size_t t = 0; t < row.size(); t += 5) {
      REQUIRE(
          Row(row.begin() + static_cast<std::int64_t>(t), row.begin() + static_cast<std::int64_t>(t) + 5) ==
          Row{kBos, row[t + 1], row[t + 1], row[t + 1], kEos});
      order += static_cast<char>(row[t + 1]);
    }
    orders.insert(order);
    std::sort(order.begin(), order.end());
    REQUIRE(order == "abcdefghi");
  }
  CHECK(orders.size() == 20);
}

TEST_CASE("the union of the ranks' rows is the batch of one rank, for any ranks, batch and accumulation") {
  std::mt19937 random(3);
  TempFolder folder;
  write_documents(folder, 50, random);
  for (int round = 0; round < 30; ++round) {
    DataOptions options = options_for(folder, 1 + static_cast<std::int64_t>(random() % 30));
    options.local_batch = 1 + static_cast<std::int64_t>(random() % 3);
    options.accumulation = 1 + static_cast<std::int64_t>(random() % 3);
    const std::int64_t ranks = 1 + static_cast<std::int64_t>(random() % 4),
                       first = static_cast<std::int64_t>(random() % 50);
    DataOptions alone = options;
    alone.local_batch = ranks * options.local_batch;
    DataLoader one(alone, kTokenizer);
    one.seek(first);

    std::deque<DataLoader> loaders;
    for (std::int64_t r = 0; r < ranks; ++r) {
      options.dp_rank = r;
      options.dp_size = ranks;
      loaders.emplace_back(options, kTokenizer).seek(first);
    }
    for (int step = 0; step < 3; ++step) {
      const StepBatch expected = one.next();
      std::vector<StepBatch> parts;
      for (DataLoader& loader : loaders) parts.push_back(loader.next());
      for (std::size_t m = 0; m < expected.microbatches.size(); ++m) {
        std::vector<Row> rows;
        for (const StepBatch& part : parts)
          for (const Row& row : rows_of(part.microbatches[m], options.seq_len)) rows.push_back(row);
        REQUIRE(rows == rows_of(expected.microbatches[m], options.seq_len));
      }
    }
  }
}

TEST_CASE("seek(s) then next equals running from step 0, and prefetching changes nothing") {
  std::mt19937 random(4);
  TempFolder folder;
  write_documents(folder, 20, random);
  for (const bool document_attention : {false, true}) {
    DataOptions options = options_for(folder, 24);
    options.local_batch = 3;
    options.accumulation = 2;
    options.dp_size = 2;
    options.dp_rank = 1;
    options.document_attention = document_attention;
    DataLoader reference(options, kTokenizer);
    std::vector<StepBatch> steps;
    for (int s = 0; s < 30; ++s) steps.push_back(reference.next());

    options.num_prefetch_batches = 4;
    DataLoader prefetched(options, kTokenizer);
    for (const StepBatch& step : steps) check_equal(prefetched.next(), step);
    for (const std::int64_t s : {29, 0, 7, 7, 15}) {
      prefetched.seek(s);
      reference.seek(s);
      CHECK(prefetched.state().step == s);
      check_equal(prefetched.next(), steps[static_cast<std::size_t>(s)]);
      check_equal(reference.next(), steps[static_cast<std::size_t>(s)]);
    }
  }
}

TEST_CASE("another seed gives another order, and a seek to a distant step is immediate") {
  std::mt19937 random(5);
  TempFolder folder;
  write_documents(folder, 30, random);
  DataOptions options = options_for(folder, 16);
  const std::vector<Row> rows = epoch_rows(options, 0);
  options.seed = 43;
  CHECK(epoch_rows(options, 0) != rows);
  DataLoader loader(options, kTokenizer);
  loader.seek(std::int64_t{1} << 40);
  CHECK(loader.next().step == std::int64_t{1} << 40);
}

TEST_CASE("train and validation are disjoint, cover all documents, and do not depend on seed or location") {
  std::mt19937 random(6);
  TempFolder one, two;
  for (int i = 0; i < 200; ++i)
    for (const TempFolder* folder : {&one, &two})
      folder->write(std::to_string(i), std::to_string(i) + " text");
  const auto count = [](const TempFolder& folder, Split split, double fraction, std::uint64_t seed) {
    DataOptions options = options_for(folder, 4);
    options.split = split;
    options.holdout_fraction = fraction;
    options.seed = seed;
    DataLoader loader(options, kTokenizer);
    return std::pair(loader.summary().documents, loader.state().fingerprint);
  };
  const auto [train, train_print] = count(one, Split::train, 0.2, 1);
  const auto [validation, validation_print] = count(one, Split::validation, 0.2, 1);
  CHECK(train + validation == 200);
  CHECK((20 < validation && validation < 60));
  CHECK(count(two, Split::train, 0.2, 2).second == train_print);
  CHECK(count(two, Split::validation, 0.2, 2).second == validation_print);
  CHECK(count(one, Split::train, 0.0, 1).first == 200);
  CHECK(count(one, Split::validation, 0.99, 1).first > 190);
}

TEST_CASE("without shuffling a split is a fixed sequence in natural order") {
  std::mt19937 random(7);
  TempFolder folder;
  write_documents(folder, 30, random);
  DataOptions options = options_for(folder, 8);
  options.split = Split::validation;
  options.holdout_fraction = 0.5;
  options.shuffle = false;
  const std::vector<Row> rows = epoch_rows(options, 0);
  options.seed = 1;
  CHECK(epoch_rows(options, 0) == rows);
  CHECK(epoch_rows(options, 2) == rows);
  CHECK(rows[0][0] == kBos);
}

TEST_CASE("a split smaller than one sample is refused with the tokens it has and needs") {
  TempFolder folder;
  folder.write("a", "abc");
  CHECK(data_error([&] { DataLoader(options_for(folder, 4), kTokenizer); }) ==
        "no error");  // 5 tokens: one sample
  CHECK_THAT(
      data_error([&] { DataLoader(options_for(folder, 5), kTokenizer); }),
      ContainsSubstring("the training split has 5 tokens in 1 of 1 documents, and one sample needs 6"));
  DataOptions options = options_for(folder, 4);
  options.split = Split::validation;
  CHECK_THAT(data_error([&] { DataLoader(options, kTokenizer); }),
             ContainsSubstring("the validation split has 0 tokens in 0 of 1 documents"));
}

TEST_CASE(
    "a file that shrinks during training makes next() throw with its name, after the earlier steps, until "
    "seek") {
  for (const std::int64_t prefetch : {0, 3}) {
    TempFolder folder;
    const std::string path = folder.write("a", std::string(198, 'x'));
    DataOptions options = options_for(folder, 10);
    options.shuffle = false;
    options.num_prefetch_batches = prefetch;
    DataLoader loader(options, kTokenizer);
    loader.next();
    std::filesystem::resize_file(path, 100);
    std::string message = "no error";
    for (int step = 1; step < 19 && message == "no error"; ++step)
      message = data_error([&] { loader.next(); });
    CHECK_THAT(message, ContainsSubstring(path + ": changed while in use"));
    CHECK(data_error([&] { loader.next(); }) == message);
    loader.seek(2);
    CHECK(loader.next().step == 2);
  }
}

TEST_CASE("a loader can be destroyed with steps prepared, in preparation or never requested") {
  std::mt19937 random(8);
  TempFolder folder;
  write_documents(folder, 10, random);
  for (int round = 0; round < 200; ++round) {
    DataOptions options = options_for(folder, 16);
    options.local_batch = 1 + static_cast<std::int64_t>(random() % 64);
    options.num_prefetch_batches = 1 + static_cast<std::int64_t>(random() % 3);
    DataLoader loader(options, kTokenizer);
    for (auto steps = random() % 4; steps > 0; --steps) loader.next();
    if (random() % 2 == 0) loader.seek(5);
  }
}

TEST_CASE("with one_epoch every sample has its labels once, and later rows have none") {
  std::mt19937 random(8);
  TempFolder folder;
  write_documents(folder, 30, random);
  DataOptions options = options_for(folder, 16);
  options.one_epoch = true;
  options.local_batch = 4;
  DataLoader loader(options, kTokenizer);
  const std::int64_t samples = loader.summary().samples_per_epoch;
  const std::int64_t steps = (samples + 3) / 4;
  REQUIRE(samples % 4 != 0);
  std::set<Row> rows;
  std::int64_t labels = 0;
  for (std::int64_t step = 0; step < steps + 2; ++step) {
    const StepBatch batch = loader.next();
    labels += batch.valid_tokens;
    for (const Row& row : rows_of(batch.microbatches[0], 16))
      if (row.back() != kIgnoreLabel) rows.insert(row);
    if (step >= steps) CHECK(batch.valid_tokens == 0);
  }
  CHECK(labels == samples * 16);
  CHECK(std::ssize(rows) == samples);
}

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/documents/content.h"
#include "datasets/loader.h"
#include "tests/datasets/rows_of_bytes.h"
#include "tests/datasets/temp_folder.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

DataOptions options_for(const TempFolder& folder) {
  DataOptions options;
  options.path = folder.path();
  options.seq_len = 8;
  options.local_batch = 4;
  return options;
}

}  // namespace

TEST_CASE(
    "a loader restored from its state continues with the same samples, with other numbers of ranks too") {
  TempFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i), "document " + std::to_string(i));
  DataOptions options = options_for(folder);
  DataLoader reference(options, kTokenizer);
  for (int s = 0; s < 5; ++s) reference.next();
  const DataState saved = reference.state();
  const std::vector<std::int64_t> expected = reference.next().microbatches[0].tokens;

  std::vector<std::int64_t> tokens;
  options.local_batch = 2;
  options.dp_size = 2;
  for (options.dp_rank = 0; options.dp_rank < 2; ++options.dp_rank) {
    DataLoader resumed(options, kTokenizer);
    resumed.restore(saved);
    const StepBatch step = resumed.next();
    CHECK(step.step == 5);
    tokens.insert(tokens.end(), step.microbatches[0].tokens.begin(), step.microbatches[0].tokens.end());
  }
  CHECK(tokens == expected);
}

TEST_CASE("a loader restored with another global batch continues with the next sample") {
  TempFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(std::to_string(i), "document " + std::to_string(i));
  DataOptions options = options_for(folder);
  DataLoader reference(options, kTokenizer);
  for (int s = 0; s < 3; ++s) reference.next();
  const DataState saved = reference.state();
  CHECK(saved.sample == 12);
  std::vector<std::int64_t> expected;  // samples 12 to 23
  for (int s = 0; s < 3; ++s) {
    const std::vector<std::int64_t> tokens = reference.next().microbatches[0].tokens;
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  options.local_batch = 6;
  DataLoader resumed(options, kTokenizer);
  resumed.restore(saved);
  std::vector<std::int64_t> tokens = resumed.next().microbatches[0].tokens;
  CHECK(resumed.state().sample == 18);
  CHECK(resumed.state().step == 4);
  DataLoader again(options, kTokenizer);
  again.restore(resumed.state());
  const std::vector<std::int64_t> rest = again.next().microbatches[0].tokens;
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  CHECK(tokens == expected);
}

TEST_CASE("a state of other data or another run is refused, and each difference is named") {
  TempFolder folder;
  folder.write("a.txt", "some text that is long enough");
  DataOptions options = options_for(folder);
  DataLoader loader(options, kTokenizer);
  DataState saved = loader.state();
  CHECK(data_error([&] { loader.restore(saved); }) == "no error");

  folder.write("a.txt", "some text that is longer than before");
  DataLoader grown(options, kTokenizer);
  CHECK_THAT(data_error([&] { grown.restore(saved); }),
             ContainsSubstring("the fingerprint of the documents is") && ContainsSubstring("their sizes"));

  saved.seed = 1;
  saved.seq_len = 4;
  saved.shuffle = false;
  const std::string problems = data_error([&] { loader.restore(saved); });
  for (const char* problem :
       {"the seed is 1 in the checkpoint, but 42 in this run",
        "the sequence length is 4 in the checkpoint, but 8 in this run",
        "shuffling is false in the checkpoint, but true in this run",
        "checkpoint.exclude_from_loading = [\"dataloader\"] starts with the first sample"})
    CHECK_THAT(problems, ContainsSubstring(problem));
}

TEST_CASE("a state of files with other content of the same sizes is refused") {
  const Documents before = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, after = {{1, 2, 3, 4, 5, 6, 7, 8, 7}};
  struct Case {
    std::string name, before, after;
  };
  for (const Case& c : {Case{"a.txt", "some text that is long enough", "same text that is long enough"},
                        Case{"a.tokens", rondo_bytes(before), rondo_bytes(after)}}) {
    INFO(c.name);
    TempFolder folder;
    folder.write(c.name, c.before);
    const DataOptions options = options_for(folder);
    DataState saved = DataLoader(options, kTokenizer).state();
    folder.write(c.name, c.after);
    DataLoader changed(options, kTokenizer);
    CHECK(changed.state().fingerprint == saved.fingerprint);
    CHECK_THAT(data_error([&] { changed.restore(saved); }),
               ContainsSubstring("the hash of the files' content is ") &&
                   ContainsSubstring("same names and sizes have other content") &&
                   ContainsSubstring("checkpoint.exclude_from_loading = [\"dataloader\"]"));
    saved.content.reset();  // a checkpoint of an older version
    CHECK(data_error([&] { changed.restore(saved); }) == "no error");
  }
}

TEST_CASE("the hash of a file covers short files whole, and both ends of long ones") {
  TempFolder folder;
  const std::string path = folder.path() + "/file";
  const auto hash = [&](const std::string& bytes, std::int64_t blocks) {
    folder.write("file", bytes);
    return sampled_hash(path, blocks);
  };
  const std::string shorter(9000, 's'), longer(1 << 20, 'l');
  const auto changed = [](std::string bytes, std::size_t at) {
    bytes[at] = 'x';
    return bytes;
  };
  for (const std::size_t at : {0, 4095, 4096, 8999}) CHECK(hash(changed(shorter, at), 3) != hash(shorter, 3));
  for (const std::size_t at : {std::size_t{0}, longer.size() / 2, longer.size() - 1})
    CHECK(hash(changed(longer, at), 3) != hash(longer, 3));
  CHECK(hash(longer, 3) == hash(longer, 3));
  CHECK(hash("", 3) != 0);
  CHECK(hash(longer, 0) == 0);
}

TEST_CASE("blocks are divided evenly among files, also among more files than blocks") {
  for (const std::size_t files : {1, 3, 256, 1000}) {
    std::int64_t sum = 0, most = 0;
    for (std::size_t i = 0; i < files; ++i) {
      const std::int64_t share = share_of_blocks(256, i, files);
      sum += share;
      most = std::max(most, share);
    }
    CHECK(sum == 256);
    CHECK(most == static_cast<std::int64_t>((256 + files - 1) / files));
  }
}

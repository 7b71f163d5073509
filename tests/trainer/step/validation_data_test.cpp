#include <catch2/catch_test_macros.hpp>
#include <set>

#include "config/derived/layout.h"
#include "config/load.h"
#include "datasets/tokenizer/tokenizer.h"
#include "tests/runs/metrics/scratch.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

TEST_CASE("a validation has rows of all documents, the same in any order of the training and for any seed") {
  const Scratch scratch;
  for (const char letter : {'a', 'b', 'c', 'd'})
    write_text(scratch / "data" / (std::string(1, letter) + ".txt"), std::string(3000, letter));
  const ByteTokenizer tokenizer;
  const auto rows = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--validation.enable=true",
                                      "--validation.dataset_path=" + (scratch / "data").string(),
                                      "--validation.seq_len=32", "--validation.local_batch_size=16",
                                      "--training.dataset_path=" + (scratch / "data").string()};
    flags.insert(flags.end(), more.begin(), more.end());
    const JobConfig config = load_config(flags);
    DataLoader loader(validation_data(config, resolve_layout(config, 1), {}), tokenizer);
    return loader.next().microbatches[0].tokens;
  };
  const std::vector<std::int64_t> drawn = rows({});
  const std::set<std::int64_t> letters(drawn.begin(), drawn.end());
  for (const char letter : {'a', 'b', 'c', 'd'}) CHECK(letters.contains(letter));
  CHECK(rows({"--debug.seed=7", "--training.shuffle=false"}) == drawn);
}

}  // namespace
}  // namespace rondo

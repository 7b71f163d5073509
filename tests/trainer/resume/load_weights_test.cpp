// Tests that any rank reads its weights from a folder.
#include "trainer/resume/load_weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <optional>

#include "checkpoint/safetensors/writer.h"
#include "parallel/flat_shard.h"
#include "tests/compiler/execute/far_device.h"

namespace rondo {
namespace {

using at::Tensor;

// A file with one tensor.
struct StoredFile {
  StoredFile(safetensors::Dtype dtype, const Tensor& values)
      : path(std::filesystem::temp_directory_path() / ("rondo_load_" + std::to_string(getpid()))) {
    safetensors::Writer writer(path, {{"weight", dtype, values.sizes().vec()}});
    writer.write("weight", 0, {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
    writer.finish();
    file.emplace(path);
  }
  ~StoredFile() { std::filesystem::remove(path); }
  hugging_face::StoredTensor stored() const { return {&*file, file->find("weight")}; }

  std::filesystem::path path;
  std::optional<safetensors::File> file;
};

// More elements than two copied chunks.
Tensor many_values() { return at::arange(1050, 1050 + 3 * 700'001, at::kFloat).view({3, 700'001}).mul(1e-3); }

}  // namespace

TEST_CASE("the shards of any number of ranks are the pieces of the stored tensor, padded with zeros") {
  const Tensor values = many_values();
  const StoredFile file(safetensors::Dtype::f32, values);
  const int ranks = GENERATE(1, 2, 5);
  std::vector<Tensor> pieces;
  for (int rank = 0; rank < ranks; ++rank) {
    const FlatShard flat({values.numel()}, {}, ranks, rank);
    Tensor shard = at::full({flat.stored()}, 7.0, at::kFloat);
    load_weights(shard, file.stored(), flat.begin(), flat.end());
    pieces.push_back(shard);
  }
  const Tensor all = at::cat(pieces);
  CHECK(at::equal(all.narrow(0, 0, values.numel()), values.view({-1})));
  CHECK(all.narrow(0, values.numel(), all.numel() - values.numel()).eq(0).all().item<bool>());
}

TEST_CASE("a shard on another device gets the stored numbers") {
  const Tensor values = many_values();
  const StoredFile file(safetensors::Dtype::f32, values);
  Tensor shard = at::full({values.numel() + 1}, 7.0, at::kFloat).to(at::kBFloat16).to(far_device());
  load_weights(shard, file.stored(), 0, values.numel());
  CHECK(at::equal(shard.cpu().narrow(0, 0, values.numel()), values.view({-1}).to(at::kBFloat16)));
  CHECK(shard.cpu()[values.numel()].item<float>() == 0);
}

TEST_CASE(
    "stored bfloat16 and float16 are the same numbers in fp32, and fp32 is rounded to the dtype of the "
    "shard") {
  const Tensor values = many_values();
  const auto loaded = [&](safetensors::Dtype stored, at::ScalarType as, at::ScalarType wanted) {
    const StoredFile file(stored, values.to(as));
    Tensor shard = at::full({values.numel()}, 7.0, wanted);
    load_weights(shard, file.stored(), 0, values.numel());
    return shard.view(values.sizes());
  };
  using safetensors::Dtype;
  CHECK(at::equal(loaded(Dtype::bf16, at::kBFloat16, at::kFloat), values.to(at::kBFloat16).to(at::kFloat)));
  CHECK(at::equal(loaded(Dtype::f16, at::kHalf, at::kFloat), values.to(at::kHalf).to(at::kFloat)));
  CHECK(at::equal(loaded(Dtype::f32, at::kFloat, at::kBFloat16), values.to(at::kBFloat16)));
}

}  // namespace rondo

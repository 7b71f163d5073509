// Tests folders with matrices in 8 and 4 bits: every number against LibTorch's conversion, for any
// cut over ranks.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/fp8_blocks.h"
#include "checkpoint/hugging_face/mxfp4_blocks.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors/writer.h"
#include "models/deepseek_v3/deepseek_v3.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/parts/decoder.h"
#include "tests/datasets/temp_folder.h"
#include "trainer/resume/convert.h"
#include "trainer/resume/load_weights.h"
#include "trainer/step/float_dtypes.h"

namespace rondo {
namespace {

using at::Tensor;
using Json = nlohmann::json;
using safetensors::Dtype;

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Returns whether all numbers have equal bits; any NaN equals any NaN.
bool same(const Tensor& a, const Tensor& b) {
  return at::equal(a.isnan(), b.isnan()) && at::equal(a.nan_to_num(0), b.nan_to_num(0));
}

Tensor numbers_of(const Tensor& bits, const Tensor& scales) {
  const Tensor each = scales.repeat_interleave(128, 0).repeat_interleave(128, 1);
  return bits.view(at::kFloat8_e4m3fn).to(at::kFloat) *
         each.narrow(0, 0, bits.size(0)).narrow(1, 0, bits.size(1));
}

// Matrices of several blocks, with partial blocks at their edges.
DeepSeekV3Config small_deepseek() {
  DeepSeekV3Config c;
  c.dim = 200, c.n_layers = 2, c.n_dense_layers = 1, c.n_heads = 3, c.vocab_size = 30, c.ffn_hidden_dim = 150;
  c.q_lora_rank = 20, c.kv_lora_rank = 129, c.qk_nope_head_dim = 16, c.qk_rope_head_dim = 8,
  c.v_head_dim = 90;
  c.moe_hidden_dim = 140, c.n_experts = 4, c.n_shared_experts = 1, c.top_k = 2,
  c.score_func = ScoreFunction::sigmoid;
  return c;
}

using Files = std::map<std::string, std::pair<Dtype, Tensor>>;

void write_folder(TempFolder& folder, const Json& config, const Files& files) {
  folder.write("config.json", config.dump());
  std::vector<safetensors::TensorInfo> infos;
  for (const auto& [name, stored] : files) infos.push_back({name, stored.first, stored.second.sizes().vec()});
  safetensors::Writer writer(folder.path("model.safetensors"), infos);
  for (const auto& [name, stored] : files) writer.write(name, 0, bytes_of(stored.second));
  writer.finish();
}

// Checks the elements at `place` of the parameter, and that the padding is zero.
void check_part(const hugging_face::Folder& folder, const ParameterRule& rule, const FlatShard& place,
                const Tensor& whole, at::ScalarType dtype) {
  INFO(rule.name << ", part " << place.cut().part << " of " << place.cut().parts << " along "
                 << place.cut().dim << ", shards of " << place.stored());
  Tensor shard = at::full({place.stored()}, 7.0, dtype), expected = at::zeros({place.stored()});
  place.for_each_run([&](const ElementRun& run) {
    expected.narrow(0, run.in_shard, run.count).copy_(whole.narrow(0, run.in_whole, run.count));
  });
  load_weights(shard, folder, rule.hugging_face_name, place);
  REQUIRE(same(shard, expected.to(dtype)));
}

// A whole model with projections in 8 bits, except for one expert; and its numbers.
class QuantizedFolder {
 public:
  // One element of the tensor `infinite` is infinite.
  explicit QuantizedFolder(const std::string& dtype = "bfloat16", const std::string& infinite = "")
      : sizes(to_values(small_deepseek())), model(make_decoder("deepseek_v3", sizes)), infinite_(infinite) {
    at::manual_seed(11);
    for (const hugging_face::Parameter& one : hugging_face::parameters_of(*model)) add(one);
    Json config = Json::parse(hugging_face::config_json({"deepseek_v3", sizes, dtype, {}}));
    config["quantization_config"] = {
        {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 128}}};
    if (dtype.empty()) config.erase("torch_dtype");
    write_folder(temp_, config, files_);
  }

  std::string path(const std::string& name = "") const { return temp_.path(name); }
  // Returns a whole parameter, flattened, in fp32.
  Tensor whole(const std::string& name, const std::vector<std::int64_t>& shape) const {
    std::vector<Tensor> parts;
    for (const auto& one : hugging_face::stacked(name, shape))
      parts.push_back(numbers_.at(one.name).view({-1}));
    return at::cat(parts);
  }

  FieldValues sizes;
  std::shared_ptr<const Decoder> model;

 private:
  void add(const hugging_face::Parameter& one) {
    const bool plain =
        one.name.find("_proj.") == std::string::npos || one.name.find("experts.2.up") != one.name.npos;
    if (plain) {
      const at::ScalarType type = one.always_fp32 ? at::kFloat : at::kBFloat16;
      const Tensor value = at::randn(one.shape).to(type);
      if (one.name == infinite_) value.view({-1})[0].fill_(std::numeric_limits<float>::infinity());
      files_[one.name] = {one.always_fp32 ? Dtype::f32 : Dtype::bf16, value};
      numbers_[one.name] = value.to(at::kFloat);
      return;
    }
    Tensor bits = at::randint(0, 256, one.shape, at::kByte);
    bits.masked_fill_(bits.bitwise_and(127).eq(127), 0);  // NaN
    const Tensor scales = at::rand(hugging_face::scales_shape(one.shape)) * 1e-3;
    files_[one.name] = {Dtype::f8_e4m3, bits};
    files_[one.name + "_scale_inv"] = {Dtype::f32, scales};
    numbers_[one.name] = numbers_of(bits, scales);
  }

  TempFolder temp_;
  std::string infinite_;
  Files files_;
  std::map<std::string, Tensor> numbers_;
};

}  // namespace

TEST_CASE("every number of 8 bits times its scale equals LibTorch's conversion") {
  const Tensor bits = at::arange(256, at::kByte).view({1, 256}).repeat({130, 1});
  const Tensor scales = at::rand({2, 2});
  scales[1][0].fill_(std::numeric_limits<float>::infinity());
  scales[1][1].fill_(std::numeric_limits<float>::quiet_NaN());
  Tensor ours = at::full({130, 256}, 7.0f);
  hugging_face::dequantize(bytes_of(bits), 0, 256, bytes_of(scales),
                           {ours.data_ptr<float>(), static_cast<std::size_t>(ours.numel())});
  CHECK(same(ours, numbers_of(bits, scales)));
  CHECK(hugging_face::scales_shape({129, 7168}) == std::vector<std::int64_t>{2, 56});
}

TEST_CASE("ranks read their part of matrices in 8 bits, from any beginning") {
  const QuantizedFolder made;
  const hugging_face::Folder folder(made.path());
  folder.check(hugging_face::parameters_of(*made.model));
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  for (const ParameterRule& rule : made.model->parameters()) {
    const Tensor whole = made.whole(rule.hugging_face_name, rule.sizes);
    const int last = static_cast<int>(rule.sizes.size()) - 1;
    for (const Cut& cut : {Cut{}, Cut{0, 3, 1}, Cut{0, 2, 1}, Cut{last, 3, 2}})
      for (const std::int64_t ranks : {1, 2, 7})
        check_part(folder, rule, FlatShard(rule.sizes, cut, ranks, ranks / 2), whole, dtype);
  }
}

TEST_CASE(
    "a parameter with a number that is not finite is refused by the ranks that hold it, with its file") {
  const QuantizedFolder made("bfloat16", "model.norm.weight");
  const hugging_face::Folder folder(made.path());
  checkpoint::Reader reader(import_from_hugging_face(made.path(), made.path("imported")));
  const auto refusal = [](const auto& load) -> std::string {
    try {
      load();
      return "";
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::checkpoint);
      return error.what();
    }
  };
  for (const ParameterRule& rule : made.model->parameters())
    for (const std::int64_t rank : {0, 1}) {
      INFO(rule.name << " on rank " << rank);
      const FlatShard place(rule.sizes, {}, 2, rank);
      Tensor shard = at::zeros({place.stored()});
      const std::string of_folder =
          refusal([&] { load_weights(shard, folder, rule.hugging_face_name, place); });
      const std::string of_checkpoint =
          refusal([&] { load_weights(shard, reader, "model/" + rule.name, place); });
      const bool has_it = rule.hugging_face_name == "model.norm.weight" && rank == 0;
      CHECK(of_folder.starts_with(has_it ? made.path("model.safetensors") + ": tensor model.norm.weight has "
                                         : ""));
      CHECK(of_folder.empty() != has_it);
      CHECK(of_checkpoint.empty() != has_it);
    }
}

TEST_CASE(
    "a checkpoint of a folder with matrices in 8 bits has their numbers in the dtype of its config.json") {
  const std::string dtype = GENERATE("bfloat16", "");
  const QuantizedFolder made(dtype);
  const bool small_files = GENERATE(false, true);
  const auto at = small_files ? import_from_hugging_face(made.path(), made.path("imported"), 100'000)
                              : import_from_hugging_face(made.path(), made.path("imported"));
  checkpoint::Reader reader(at);
  CHECK((reader.manifest().shards.size() > 1) == small_files);
  for (const ParameterRule& rule : made.model->parameters()) {
    INFO(rule.name);
    const auto* stored = reader.manifest().find("model/" + rule.name);
    REQUIRE(stored != nullptr);
    const bool projection = rule.hugging_face_name.find("_proj.") != std::string::npos;
    CHECK(stored->dtype == (projection && dtype.empty() ? "f32" : "bf16"));
    const Tensor expected = made.whole(rule.hugging_face_name, rule.sizes).to(float_stored_as(stored->dtype));
    const Tensor read = at::zeros(expected.sizes(), expected.options());
    reader.read(stored->name, 0, read.numel(), {static_cast<std::byte*>(read.data_ptr()), read.nbytes()});
    CHECK(same(read, expected));
  }
  CHECK(reader.manifest().find("model/layers.1.moe.expert_bias")->dtype == "f32");
}

// E2M1 by its bits: a sign, an exponent with bias 1, a mantissa bit.
double number_of_code(unsigned code) {
  const unsigned exponent = code >> 1 & 3, half = code & 1;
  const double size =
      exponent == 0 ? 0.5 * half : (1 + 0.5 * half) * std::ldexp(1.0, static_cast<int>(exponent) - 1);
  return (code & 8) != 0 ? -size : size;
}

TEST_CASE("every code of 4 bits, with every scale, is dequantized to its number times a power of two") {
  // One expert of one output: codes 0 to 15 and 15 to 0, the first of two in the low half.
  std::vector<std::byte> blocks;
  for (unsigned code = 0; code < 16; code += 2)
    blocks.push_back(static_cast<std::byte>(code | (code + 1) << 4));
  for (unsigned code = 0; code < 16; code += 2)
    blocks.push_back(static_cast<std::byte>((15 - code) | (14 - code) << 4));
  for (unsigned bits = 0; bits < 256; ++bits) {
    INFO(bits);
    const std::vector<std::byte> scales = {static_cast<std::byte>(bits)};
    std::vector<float> numbers(32);
    hugging_face::dequantize({32, 1, blocks, scales}, 0, numbers);
    for (unsigned i = 0; i < 32; ++i) {
      const double exact =
          number_of_code(i < 16 ? i : 31 - i) * std::ldexp(1.0, static_cast<int>(bits) - 127);
      const auto expected = static_cast<float>(exact);  // infinite beyond the range of fp32
      if (bits == 255)
        CHECK(std::isnan(numbers[i]));
      else
        CHECK((numbers[i] == expected && std::signbit(numbers[i]) == std::signbit(expected)));
    }
  }
}

TEST_CASE("experts in 4 bits are read as inputs before outputs, in any range") {
  constexpr std::int64_t kExperts = 3, kInputs = 64, kOutputs = 5;
  const Tensor blocks = at::randint(256, {kExperts, kOutputs, kInputs / 32, 16}, at::kByte),
               scales = at::randint(120, 130, {kExperts, kOutputs, kInputs / 32}, at::kByte);
  const auto byte = [](const Tensor& tensor, std::int64_t i) {
    return unsigned{tensor.const_data_ptr<std::uint8_t>()[i]};
  };
  Tensor expected = at::zeros({kExperts, kInputs, kOutputs});
  for (std::int64_t e = 0; e < kExperts; ++e)
    for (std::int64_t i = 0; i < kInputs; ++i)
      for (std::int64_t o = 0; o < kOutputs; ++o) {
        const std::int64_t block = (e * kOutputs + o) * 2 + i / 32;
        const unsigned both = byte(blocks, block * 16 + i % 32 / 2);
        const double power = std::ldexp(1.0, static_cast<int>(byte(scales, block)) - 127);
        expected[e][i][o] = number_of_code(i % 2 == 0 ? both & 15 : both >> 4) * power;
      }
  TempFolder folder;
  safetensors::Writer writer(
      folder.path("model.safetensors"),
      {{"w_blocks", Dtype::u8, blocks.sizes().vec()}, {"w_scales", Dtype::u8, scales.sizes().vec()}});
  writer.write("w_blocks", 0, bytes_of(blocks));
  writer.write("w_scales", 0, bytes_of(scales));
  writer.finish();
  const safetensors::File file(folder.path("model.safetensors"));
  const hugging_face::StoredTensor of_scales{&file, file.find("w_scales")};
  const hugging_face::StoredTensor stored{&file, file.find("w_blocks"), &of_scales};
  const std::int64_t all = expected.numel();
  for (const auto& [begin, end] :
       {std::pair<std::int64_t, std::int64_t>{0, all}, {1, 7}, {318, 323}, {319, 641}, {700, all}}) {
    Tensor part = at::zeros({end - begin});
    load_weights(part, stored, begin, end);
    CHECK(at::equal(part, expected.view({-1}).narrow(0, begin, end - begin)));
  }
}

TEST_CASE("ranks read their part of experts in 4 bits, in any order and from any beginning") {
  GptOssConfig c;
  c.dim = 64, c.n_layers = 1, c.n_heads = c.n_kv_heads = 2, c.vocab_size = 30, c.moe_hidden_dim = 32;
  const FieldValues sizes = to_values(c);
  const auto model = make_decoder("gpt_oss", sizes);
  Files files;
  for (const hugging_face::Parameter& one : hugging_face::parameters_of(*model)) {
    const std::vector<std::int64_t> of_blocks = hugging_face::mxfp4_shape(one.shape);
    if (of_blocks.empty()) {
      files[one.name] = {Dtype::bf16, at::randn(one.shape).to(at::kBFloat16)};
      continue;
    }
    files[one.name + "_blocks"] = {Dtype::u8, at::randint(256, of_blocks, at::kByte)};
    files[one.name + "_scales"] = {
        Dtype::u8, at::randint(120, 130, {of_blocks[0], of_blocks[1], of_blocks[2]}, at::kByte)};
  }
  Json config = Json::parse(hugging_face::config_json({"gpt_oss", sizes, "bfloat16", {}}));
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  TempFolder temp;
  write_folder(temp, config, files);
  const hugging_face::Folder folder(temp.path(""));
  folder.check(hugging_face::parameters_of(*model));
  for (const ParameterRule& rule : model->parameters()) {
    if (rule.style != ParallelStyle::experts || rule.sizes.size() != 3) continue;
    Tensor whole = at::zeros({element_count(rule)});
    load_weights(whole, folder.find(rule.hugging_face_name), 0, whole.numel());
    for (const Cut& cut : {Cut{}, Cut{1, 2, 1}, Cut{2, 2, 0}, Cut{2, 4, 3, 2}})
      for (const std::int64_t ranks : {1, 3})
        check_part(folder, rule, FlatShard(rule.sizes, cut, ranks, ranks / 2, {2, 1}), whole, at::kFloat);
  }
}

}  // namespace rondo

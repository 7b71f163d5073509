// Compares the index and the headers of all shards in both directions before any weight is read.
// Problems are collected by kind, up to twenty of each, because a wrong folder has thousands of
// wrong tensors. A tensor in 8 bits is matched with its scales by name; both must exist. Only
// rotary tables, tensors that the configuration excludes, and a head that equals the embedding that
// it is tied to, may remain.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/hugging_face/folder_files.h"
#include "checkpoint/hugging_face/fp8_blocks.h"
#include "checkpoint/hugging_face/mxfp4_blocks.h"
#include "support/error.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;
using safetensors::Dtype;
using safetensors::shown_name;

// Collects problems of many tensors and names the first of each kind.
class TensorProblems {
 public:
  void add(const std::string& kind, const std::string& text) {
    if (problems_.size() == kShown && !problems_.contains(kind)) return void(++more_kinds_);
    std::vector<std::string>& of_kind = problems_[kind];
    ++count_;
    if (of_kind.size() < kShown)
      of_kind.push_back(text);
    else
      ++more_[kind];
  }

  void throw_if_any(const std::filesystem::path& place, const char* advice) const {
    if (count_ == 0) return;
    std::string text = fmt::format("{}: the weights are not those of its model:", place.string());
    for (const auto& [kind, lines] : problems_) {
      text += fmt::format("\n  {}: {}", kind, fmt::join(lines, ", "));
      if (more_.contains(kind)) text += fmt::format(" and {} more", more_.at(kind));
    }
    if (more_kinds_ > 0) text += fmt::format("\n  and {} more problems of other kinds", more_kinds_);
    throw Error(ExitCode::checkpoint, text + "\n" + advice);
  }

 private:
  static constexpr std::size_t kShown = 20;
  std::map<std::string, std::vector<std::string>> problems_;
  std::map<std::string, std::size_t> more_;
  std::size_t count_ = 0, more_kinds_ = 0;
};

// Returns file names by tensor. Throws for an index that is damaged or names a path.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const Json index = parse_object(read_small_file(path), path.string());
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    throw Error(
        ExitCode::checkpoint,
        path.string() + ": weight_map must be an object with the file of each tensor; correct or remove it");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_shard_name(file.get<std::string>()))
      throw Error(
          ExitCode::checkpoint,
          fmt::format("{}: weight_map has {} for {}; it must be the name of a .safetensors file in the "
                      "same folder, not a path",
                      path.string(),
                      file.is_string() ? shown_name(file.get<std::string>()) : std::string(file.type_name()),
                      shown_name(name)));
    files[name] = file.get<std::string>();
  }
  return files;
}

bool is_rotary_table(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

bool is_weight(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16; }

std::string scales_of(const std::string& name) { return name + std::string(kScales); }

std::string with_dtype(const safetensors::TensorInfo& info) {
  return fmt::format("{} is {}", shown_name(info.name), safetensors::dtype_name(info.dtype));
}

float to_float(Dtype dtype, const std::byte* from) {
  std::uint16_t half = 0;
  float number = 0;
  if (dtype == Dtype::f32) {
    std::memcpy(&number, from, sizeof number);
    return number;
  }
  std::memcpy(&half, from, sizeof half);
  if (dtype == Dtype::bf16) return std::bit_cast<float>(std::uint32_t{half} << 16);
  const int exponent = half >> 10 & 31, mantissa = half & 1023;  // IEEE 754 binary16
  if (exponent == 31)
    number = mantissa == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    number = std::ldexp(static_cast<float>(mantissa), -24);
  else
    number = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return half >> 15 != 0 ? -number : number;
}

// Returns how a head differs from the embedding that it is tied to; "" if it does not. Their shapes
// may differ.
std::string difference_of(const StoredTensor& embedding, const StoredTensor& head) {
  const auto shown = [](const StoredTensor& stored) {
    return fmt::format("{} [{}]", with_dtype(*stored.info), fmt::join(stored.info->shape, ", "));
  };
  if (embedding.info->shape != head.info->shape || !is_weight(embedding.dtype()) || !is_weight(head.dtype()))
    return fmt::format("{}, and {}", shown(head), shown(embedding));
  constexpr std::uint64_t kElements = std::uint64_t{1} << 20;
  const std::uint64_t elements = head.info->elements();
  float largest = 0;
  for (std::uint64_t begin = 0; begin < elements; begin += kElements) {
    const std::uint64_t end = std::min(elements, begin + kElements);
    const std::vector<std::byte> a = embedding.elements(begin, end), b = head.elements(begin, end);
    if (embedding.dtype() == head.dtype() && a == b) continue;
    const std::uint64_t bytes_a = a.size() / (end - begin), bytes_b = b.size() / (end - begin);
    for (std::uint64_t i = 0; i < end - begin; ++i) {
      const float difference =
          std::abs(to_float(embedding.dtype(), &a[i * bytes_a]) - to_float(head.dtype(), &b[i * bytes_b]));
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest == 0 ? "" : fmt::format("{} differs by up to {}", shown_name(head.info->name), largest);
}

void check_shape(const safetensors::TensorInfo& info, const std::vector<std::int64_t>& shape,
                 TensorProblems& problems) {
  if (info.shape != shape)
    problems.add("of another shape", fmt::format("{} is [{}] and must be [{}]", shown_name(info.name),
                                                 fmt::join(info.shape, ", "), fmt::join(shape, ", ")));
}

// Checks a parameter in 8 bits.
void check_quantized(const Parameter& parameter, const StoredTensor& stored, bool declared,
                     TensorProblems& problems) {
  if (!declared)
    problems.add("in 8 bits, while config.json has no quantization_config", with_dtype(*stored.info));
  if (parameter.shape.size() != 2 || parameter.always_fp32)
    problems.add("in 8 bits but not a matrix", with_dtype(*stored.info));
  else if (stored.scales == nullptr)
    problems.add("missing", shown_name(scales_of(parameter.name)));
  if (stored.scales == nullptr) return;
  check_shape(*stored.scales->info, scales_shape(parameter.shape), problems);
  if (stored.scales->dtype() != Dtype::f32)
    problems.add("scales of a dtype that is not F32", with_dtype(*stored.scales->info));
}

// Checks a parameter of experts in 4 bits.
void check_mxfp4(const Parameter& parameter, const StoredTensor& stored, TensorProblems& problems) {
  std::vector<std::int64_t> shape = mxfp4_shape(parameter.shape);
  if (shape.empty())
    return problems.add("in 4 bits but not experts with inputs in blocks of 32", shown_name(parameter.name));
  check_shape(*stored.info, shape, problems);
  shape.pop_back();
  check_shape(*stored.scales->info, shape, problems);
  if (stored.scales->dtype() != Dtype::u8)
    problems.add("scales of a dtype that is not U8", with_dtype(*stored.scales->info));
}

}  // namespace

std::vector<Parameter> stacked(const std::string& name, const std::vector<std::int64_t>& sizes) {
  const std::size_t star = name.find('*');
  if (star == std::string::npos) return {{name, sizes}};
  std::vector<Parameter> tensors;
  for (std::int64_t i = 0; i < sizes.at(0); ++i)
    tensors.push_back(
        {name.substr(0, star) + std::to_string(i) + name.substr(star + 1), {sizes.begin() + 1, sizes.end()}});
  return tensors;
}

Folder::Folder(std::filesystem::path path) : path_(std::move(path)), config_(read_config(path_ / kConfig)) {
  if (std::filesystem::exists(path_ / kWeights)) {
    files_.emplace_back(path_ / kWeights);
  } else if (std::filesystem::exists(path_ / kIndex)) {
    open_shards();
  } else {
    for (const std::string& name : shards_without_index(path_)) files_.emplace_back(path_ / name);
  }
  const std::string& prefix = config_.prefix;
  for (const safetensors::File& file : files_)
    for (const safetensors::TensorInfo& info : file.tensors()) {
      const bool has_prefix = info.name.starts_with(prefix);
      const std::string name = has_prefix ? info.name.substr(prefix.size()) : info.name;
      const auto [other, is_new] = tensors_.try_emplace(name, StoredTensor{&file, &info});
      if (!is_new)
        throw Error(ExitCode::checkpoint,
                    fmt::format("{}: both {} of {} and {} of {}; remove one of them", path_.string(),
                                shown_name(other->second.info->name), other->second.file_name(),
                                shown_name(info.name), StoredTensor{&file, &info}.file_name()));
    }
  find_scales();
  find_blocks();
}

// Adds parameters in 4 bits, which have no tensor of their own name.
void Folder::find_blocks() {
  if (config_.quantization != Quantization::mxfp4) return;
  std::map<std::string, StoredTensor> quantized;
  for (const auto& [name, stored] : tensors_) {
    if (!name.ends_with(kMxfp4Blocks) || stored.dtype() != Dtype::u8) continue;
    const std::string parameter = name.substr(0, name.size() - kMxfp4Blocks.size());
    const auto scales = tensors_.find(parameter + std::string(kMxfp4Scales));
    if (scales != tensors_.end()) quantized[parameter] = {stored.file, stored.info, &scales->second};
  }
  tensors_.insert(quantized.begin(), quantized.end());
}

void Folder::find_scales() {
  for (auto& [name, stored] : tensors_) {
    if (stored.dtype() != Dtype::f8_e4m3) continue;
    const auto scales = tensors_.find(scales_of(name));
    if (scales != tensors_.end()) stored.scales = &scales->second;
  }
}

void Folder::open_shards() {
  const std::map<std::string, std::string> index = read_index(path_ / kIndex);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  if (const std::vector<std::string> missing = missing_files(path_, {names.begin(), names.end()});
      !missing.empty())
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: {} of the {} files of {} are missing, the first is {}; fetch them",
                            path_.string(), missing.size(), names.size(), kIndex, missing.front()));
  for (const std::string& name : names) files_.emplace_back(path_ / name);

  TensorProblems problems;
  auto name = names.begin();
  for (const safetensors::File& file : files_) {
    for (const safetensors::TensorInfo& info : file.tensors()) {
      const auto found = index.find(info.name);
      if (found == index.end() || found->second != *name)
        problems.add(fmt::format("in {}, where the index does not list it", *name), shown_name(info.name));
    }
    for (const auto& [tensor, location] : index)
      if (location == *name && file.find(tensor) == nullptr)
        problems.add(fmt::format("missing in {}, where the index lists it", *name), shown_name(tensor));
    ++name;
  }
  problems.throw_if_any(path_, "the index and its files are of different versions; fetch the folder again");
}

void Folder::check(std::span<const Parameter> parameters) const {
  TensorProblems problems;
  std::set<std::string, std::less<>> expected;
  for (const Parameter& parameter : parameters) {
    expected.insert(parameter.name);
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end()) {
      problems.add(parameter.name == kHead ? "missing, while config.json has no tie_word_embeddings = true"
                                           : "missing",
                   shown_name(parameter.name));
      continue;
    }
    const StoredTensor& stored = found->second;
    if (stored.scales != nullptr && stored.dtype() == Dtype::u8) {
      check_mxfp4(parameter, stored, problems);
      expected.insert(stored.info->name);
      expected.insert(stored.scales->info->name);
      continue;
    }
    check_shape(*stored.info, parameter.shape, problems);
    const std::string scales = scales_of(parameter.name);
    if (stored.dtype() == Dtype::f8_e4m3)
      check_quantized(parameter, stored, config_.quantization == Quantization::fp8, problems);
    else if (tensors_.contains(scales))
      problems.add("scales of what is not F8_E4M3",
                   fmt::format("{}, where {}", shown_name(scales), with_dtype(*stored.info)));
    else if (!is_weight(stored.dtype()))
      problems.add("of a dtype that is not F32, F16 or BF16", with_dtype(*stored.info));
    expected.insert(scales);
  }
  const auto is_excluded = [&](const std::string& name) {
    return is_rotary_table(name) ||
           std::any_of(config_.passed_over.begin(), config_.passed_over.end(),
                       [&](const std::string& prefix) { return name.starts_with(prefix); });
  };
  const bool is_tied = expected.contains(kEmbedding) && !expected.contains(kHead);
  for (const auto& [name, stored] : tensors_)
    if (!expected.contains(name) && !is_excluded(name) && !(is_tied && name == kHead))
      problems.add("unexpected", shown_name(name));
  if (is_tied && tensors_.contains(kEmbedding) && tensors_.contains(kHead))
    if (const std::string difference = difference_of(find(kEmbedding), find(kHead)); !difference.empty())
      problems.add("a head that is not the embedding, while config.json has tie_word_embeddings = true",
                   difference);
  problems.throw_if_any(path_,
                        "config.json describes another model than the weights; correct it, or name the "
                        "folder of its weights");
}

std::uint64_t StoredTensor::together() const {
  return scales != nullptr && dtype() == Dtype::u8
             ? 2 * info->elements() / static_cast<std::uint64_t>(info->shape[0])
             : 1;
}

void StoredTensor::dequantize(std::uint64_t begin, std::span<float> to) const {
  RONDO_ASSERT(scales != nullptr, "a quantized matrix has scales");
  if (dtype() == Dtype::u8) {
    const auto outputs = static_cast<std::uint64_t>(info->shape[1]);
    const std::uint64_t each = together();  // two per byte of the blocks, 32 per byte of the scales
    const std::uint64_t first = begin / each, end = (begin + to.size() + each - 1) / each;
    const std::vector<std::byte> blocks = elements(first * each / 2, end * each / 2),
                                 powers = scales->elements(first * each / 32, end * each / 32);
    return hugging_face::dequantize(
        {.inputs = each / outputs, .outputs = outputs, .blocks = blocks, .scales = powers},
        begin - first * each, to);
  }
  hugging_face::dequantize(elements(begin, begin + to.size()), begin,
                           static_cast<std::uint64_t>(info->shape[1]),
                           scales->elements(0, scales->info->elements()), to);
}

StoredTensor Folder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  RONDO_ASSERT(found != tensors_.end(), "no tensor " + shown_name(name) + " in " + path_.string());
  return found->second;
}

}  // namespace rondo::hugging_face

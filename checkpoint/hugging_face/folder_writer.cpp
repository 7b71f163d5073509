// Writes everything into a temporary folder next to the target, and renames it last. Shards are
// planned in the order of the parameters before a byte is written, so all disk space is reserved at
// once, and the index is known from the beginning. The destructor removes an unfinished folder.
// Each shard's writer checks that every byte is written exactly once, so callers may write in
// any order.
#include "checkpoint/hugging_face/folder_writer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/folder_files.h"
#include "datasets/tokenizer/tokenizer_file.h"
#include "support/error.h"
#include "support/files/atomic_file.h"

namespace rondo::hugging_face {
namespace {

namespace fs = std::filesystem;
using safetensors::Dtype;

Dtype dtype_of(const std::string& name) {
  if (name == "float32") return Dtype::f32;
  if (name == "float16") return Dtype::f16;
  RONDO_ASSERT(name == "bfloat16", "not a dtype of weights: " + name);
  return Dtype::bf16;
}

// Removes a trailing slash, so that the path has a file name.
fs::path without_trailing_slash(fs::path path) {
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// Returns a tokenizer_config.json with which transformers 4 and 5 load `tokenizer`, the text of a
// tokenizer.json, as it is.
std::string tokenizer_config_json(nlohmann::json config, std::string_view tokenizer) {
  using nlohmann::json;
  // Without a class, or with one of a model, transformers 5 rebuilds the tokenizer of the model
  // type, whose split pattern may give other ids. It names its own class TokenizersBackend, which
  // transformers 4 lacks.
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config.erase("from_slow");  // another class
  // transformers 4 gives the pre_tokenizer the setting of this file, and false without one.
  const json document = json::parse(tokenizer, nullptr, /*allow_exceptions=*/false);
  const json stage = document.is_object() ? document.value("pre_tokenizer", json()) : json();
  if (stage.is_object() && stage.contains("add_prefix_space"))
    config["add_prefix_space"] = stage["add_prefix_space"];
  // transformers 5 writes a list under this name, where transformers 4 reads an object.
  const auto extra = config.find("extra_special_tokens");
  if (extra != config.end() && extra->is_array()) {
    const json tokens = *extra;
    config.erase(extra);
    for (const json& token : tokens) config["additional_special_tokens"].push_back(token);
  }
  return config.dump(2) + "\n";
}

void copy_small_file(const fs::path& from, const fs::path& to) {
  std::error_code missing;
  if (fs::exists(from, missing)) replace_file(to, read_small_file(from), FileUse::output);
}

// Copies the files of a tokenizer. Only a tokenizer.json needs another class. Files of other
// formats keep their tokenizer_config.json, whose auto_map names Python files of the same folder.
void copy_tokenizer(const fs::path& tokenizer, const fs::path& to) {
  std::error_code missing;
  const bool is_folder = fs::is_directory(tokenizer, missing);
  const fs::path folder = is_folder ? tokenizer : folder_of(tokenizer);
  const std::vector<fs::path> files = is_folder ? tokenizer_files_in(tokenizer) : std::vector{tokenizer};
  const fs::path file = files.empty() ? folder / kTokenizer : files[0];
  const fs::path config_file = folder / kTokenizerConfig;
  const nlohmann::json config = fs::exists(config_file, missing)
                                    ? parse_object(read_small_file(config_file), config_file.string())
                                    : nlohmann::json::object();
  copy_small_file(folder / kSpecialTokens, to / kSpecialTokens);
  const std::string name = file.filename().string();
  if (name != kTekken && name.find(".model") == name.npos && file.extension() != ".tiktoken") {
    const bool exists = fs::exists(file, missing);
    const std::string text = exists ? read_small_file(file) : "";
    if (exists) replace_file(to / kTokenizer, text, FileUse::output);
    return replace_file(to / kTokenizerConfig, tokenizer_config_json(config, text), FileUse::output);
  }
  copy_small_file(file, to / name);
  copy_small_file(config_file, to / kTokenizerConfig);
  if (!config.contains("auto_map")) return;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".py") copy_small_file(entry.path(), to / entry.path().filename());
}

void refuse_existing(const fs::path& path) {
  std::error_code error;
  const bool exists = fs::exists(fs::symlink_status(path, error));
  if (exists && !(fs::is_directory(path, error) && fs::is_empty(path, error)))
    throw Error(ExitCode::checkpoint, path.string() + ": exists and is not an empty folder; name a new one");
}

// Returns the prefix of the names of temporary folders for `path`.
std::string unfinished_prefix(const fs::path& path) {
  return fmt::format(".{}.tmp-", path.filename().string());
}

// Creates a new temporary folder next to `path`, with a name that no other writer uses.
fs::path create_unfinished(const fs::path& path) {
  for (int attempt = 0;; ++attempt) {
    const fs::path pending =
        path.parent_path() / fmt::format("{}{}-{}", unfinished_prefix(path), ::getpid(), attempt);
    if (::mkdir(pending.c_str(), 0777) == 0) return pending;
    if (errno != EEXIST) throw FileError("create", path, errno, FileUse::output);
  }
}

std::uint64_t element_count(const std::vector<std::int64_t>& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

}  // namespace

void remove_unfinished(const fs::path& path) {
  const fs::path target = without_trailing_slash(path);
  std::vector<fs::path> unfinished;
  std::error_code error;
  for (fs::directory_iterator at(folder_of(target), error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with(unfinished_prefix(target)))
      unfinished.push_back(at->path());
  for (const fs::path& folder : unfinished) fs::remove_all(folder, error);
  if (error) throw FileError("clear", folder_of(target), error.value(), FileUse::output);
}

FolderWriter::FolderWriter(fs::path path, const ModelConfig& config, const std::vector<Parameter>& parameters,
                           const WriteOptions& options)
    : path_(without_trailing_slash(std::move(path))), dtype_(dtype_of(config.dtype)) {
  refuse_existing(path_);
  pending_ = create_unfinished(path_);
  try {
    create_shards(cut(parameters, options.max_shard_bytes));
    write_small_files(config, options);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(pending_, ignored);
    throw;
  }
}

FolderWriter::~FolderWriter() {
  if (pending_.empty()) return;
  std::error_code ignored;
  fs::remove_all(pending_, ignored);
}

std::vector<FolderWriter::Shard> FolderWriter::cut(const std::vector<Parameter>& parameters,
                                                   std::uint64_t max_shard_bytes) const {
  std::vector<Shard> shards(1);
  for (const Parameter& parameter : parameters) {
    safetensors::TensorInfo tensor;
    tensor.name = parameter.name;
    tensor.dtype = parameter.always_fp32 ? Dtype::f32 : dtype_;
    tensor.shape = parameter.shape;
    const std::uint64_t bytes = element_count(parameter.shape) * safetensors::dtype_bytes(tensor.dtype);
    if (!shards.back().tensors.empty() && shards.back().bytes + bytes > max_shard_bytes)
      shards.emplace_back();
    shards.back().tensors.push_back(std::move(tensor));
    shards.back().bytes += bytes;
  }
  return shards;
}

void FolderWriter::create_shards(std::vector<Shard> shards) {
  nlohmann::json map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? kWeights : shard_name(i + 1, shards.size());
    total += shards[i].bytes;
    // transformers requires this entry: PyTorch's row-major layout.
    shards_.push_back(std::make_unique<safetensors::Writer>(pending_ / name, std::move(shards[i].tensors),
                                                            safetensors::Metadata{{"format", "pt"}}));
    for (const safetensors::TensorInfo& tensor : shards_.back()->header().tensors) {
      by_parameter_[tensor.name] = {shards_.back().get(), tensor.dtype};
      map[tensor.name] = name;
    }
  }
  if (shards.size() == 1) return;
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  replace_file(pending_ / kIndex, index.dump(2) + "\n", FileUse::output);
}

void FolderWriter::write_small_files(const ModelConfig& config, const WriteOptions& options) const {
  replace_file(pending_ / kConfig, config_json(config), FileUse::output);
  replace_file(pending_ / kGenerationConfig, generation_config_json(config.tokens), FileUse::output);
  if (!options.tokenizer.empty()) copy_tokenizer(options.tokenizer, pending_);
}

void FolderWriter::write(std::string_view parameter, std::uint64_t element_offset,
                         std::span<const std::byte> bytes) {
  const auto found = by_parameter_.find(parameter);
  RONDO_ASSERT(found != by_parameter_.end(), "no parameter " + safetensors::shown_name(parameter));
  std::uint64_t offset = 0;
  const auto [shard, dtype] = found->second;
  const bool fits = !__builtin_mul_overflow(element_offset, safetensors::dtype_bytes(dtype), &offset);
  RONDO_ASSERT(fits, "an element outside of " + safetensors::shown_name(parameter));
  shard->write(parameter, offset, bytes);
}

void FolderWriter::finish() {
  for (const auto& shard : shards_) shard->finish();
  rename_file(pending_, path_, FileUse::output);
  pending_.clear();
  sync_folder(folder_of(path_), FileUse::output);
}

}  // namespace rondo::hugging_face

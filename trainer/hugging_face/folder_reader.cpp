#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "parallel/error.h"
#include "trainer/hugging_face/folder.h"
#include "trainer/hugging_face/folder_files.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;
using safetensors::Dtype;
using safetensors::shown_name;

// Collects problems of many tensors; names the first of each kind.
class TensorProblems {
 public:
  void add(const std::string& kind, const std::string& text) {
    std::vector<std::string>& of_kind = problems_[kind];
    ++count_;
    if (of_kind.size() < kShown)
      of_kind.push_back(text);
    else
      ++more_[kind];
  }

  void throw_if_any(const std::filesystem::path& place) const {
    if (count_ == 0) return;
    std::string text = fmt::format("{}: the weights are not those of its model:", place.string());
    for (const auto& [kind, lines] : problems_) {
      text += fmt::format("\n  {}: {}", kind, fmt::join(lines, ", "));
      if (more_.contains(kind)) text += fmt::format(" and {} more", more_.at(kind));
    }
    throw Error(ExitCode::checkpoint, text + "\nfetch or write the folder again, or mend its config.json");
  }

 private:
  static constexpr std::size_t kShown = 20;
  std::map<std::string, std::vector<std::string>> problems_;
  std::map<std::string, std::size_t> more_;
  std::size_t count_ = 0;
};

// File names by tensor. Throws for an index that is damaged or reaches out of its folder.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const Json index = parse_object(read_small_file(path), path.string());
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    throw Error(
        ExitCode::checkpoint,
        path.string() + ": weight_map must be an object with the file of each tensor; fetch it again");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_shard_name(file.get<std::string>()))
      throw Error(
          ExitCode::checkpoint,
          fmt::format("{}: weight_map has {} for {}; it must be the name of a .safetensors file in the "
                      "same folder, and no path",
                      path.string(),
                      file.is_string() ? shown_name(file.get<std::string>()) : std::string(file.type_name()),
                      shown_name(name)));
    files[name] = file.get<std::string>();
  }
  return files;
}

bool is_rotary_table(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

bool is_weight(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16; }

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
    throw Error(
        ExitCode::checkpoint,
        fmt::format("{}: neither {} nor {}; weights in other formats (.bin, .pth, .gguf) must be saved "
                    "as safetensors first",
                    path_.string(), kWeights, kIndex));
  }
  for (const safetensors::File& file : files_)
    for (const safetensors::TensorInfo& info : file.tensors()) tensors_[info.name] = {&file, &info};
}

void Folder::open_shards() {
  const std::map<std::string, std::string> index = read_index(path_ / kIndex);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  for (const std::string& name : names) files_.emplace_back(path_ / name);

  TensorProblems problems;
  auto name = names.begin();
  for (const safetensors::File& file : files_) {
    for (const safetensors::TensorInfo& info : file.tensors()) {
      const auto found = index.find(info.name);
      if (found == index.end() || found->second != *name)
        problems.add(fmt::format("in {} and not there in the index", *name), shown_name(info.name));
    }
    for (const auto& [tensor, in] : index)
      if (in == *name && file.find(tensor) == nullptr)
        problems.add(fmt::format("not in {}, where the index has it", *name), shown_name(tensor));
    ++name;
  }
  problems.throw_if_any(path_);
}

void Folder::check(std::span<const Parameter> parameters) const {
  TensorProblems problems;
  std::set<std::string_view> expected;
  for (const Parameter& parameter : parameters) {
    expected.insert(parameter.name);
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end()) {
      problems.add("missing", shown_name(parameter.name));
      continue;
    }
    const safetensors::TensorInfo& info = *found->second.info;
    if (info.shape != parameter.shape)
      problems.add("of another shape",
                   fmt::format("{} is [{}] and must be [{}]", shown_name(parameter.name),
                               fmt::join(info.shape, ", "), fmt::join(parameter.shape, ", ")));
    if (!is_weight(info.dtype))
      problems.add("of a dtype that is not F32, F16 or BF16",
                   fmt::format("{} is {}", shown_name(parameter.name), safetensors::dtype_name(info.dtype)));
  }
  for (const auto& [name, stored] : tensors_)
    if (!expected.contains(name) && !is_rotary_table(name)) problems.add("unexpected", shown_name(name));
  problems.throw_if_any(path_);
}

StoredTensor Folder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  RONDO_ASSERT(found != tensors_.end(), "no tensor " + shown_name(name) + " in " + path_.string());
  return found->second;
}

}  // namespace rondo::hugging_face

// Files come from strangers, so sizes are bounded, only regular files are read, and a name in an
// index may not be a path.
#include "checkpoint/hugging_face/folder_files.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "support/error.h"
#include "support/files/file.h"
#include "support/text/json_view.h"

namespace rondo::hugging_face {
namespace {

// Returns of how many shards a file is one; 0 for other names.
std::size_t shards_of(const std::string& name) {
  std::size_t shard = 0, shards = 0;
  const bool is_shard = std::sscanf(name.c_str(), "model-%5zu-of-%5zu", &shard, &shards) == 2 && shard > 0 &&
                        shard <= shards && name == shard_name(shard, shards);
  return is_shard ? shards : 0;
}

}  // namespace

std::vector<std::string> missing_files(const std::filesystem::path& folder, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) { return std::filesystem::exists(folder / name); });
  return names;
}

std::string read_small_file(const std::filesystem::path& file) {
  constexpr std::int64_t kMaxBytes = 100'000'000;
  return read_file(file, kMaxBytes, FileUse::weights);
}

nlohmann::json parse_object(std::string_view text, const std::string& file) {
  const JsonSource source{file, ExitCode::checkpoint, "; fetch or write it again"};
  nlohmann::json value = parse_json(text, source);
  JsonView(value, source).object();
  return value;
}

bool is_shard_name(const std::string& name) {
  return name.size() <= 255 && name.ends_with(".safetensors") && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

std::string shard_name(std::size_t shard, std::size_t shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard, shards);
}

std::vector<std::string> shards_without_index(const std::filesystem::path& folder) {
  std::map<std::size_t, std::string> examples;  // a shard, by their number
  std::string other;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (const std::size_t shards = shards_of(name); shards > 0)
      examples[shards] = name;
    else if (name.ends_with(".safetensors"))
      other = name;
  }
  const auto fail = [&](const std::string& what) {
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: neither {} nor {}{}", folder.string(), kWeights, kIndex, what));
  };
  if (examples.empty())
    fail(other.empty()
             ? "; weights in other formats (.bin, .pth, .gguf) must be saved as safetensors first"
             : "; " + other + " is no name of transformers, whose save_pretrained writes names that are");
  if (examples.size() > 1)
    fail(fmt::format(", and shards of two models, {} and {}; remove one of them", examples.begin()->second,
                     examples.rbegin()->second));
  const std::size_t shards = examples.begin()->first;
  std::vector<std::string> names;
  for (std::size_t shard = 1; shard <= shards; ++shard) names.push_back(shard_name(shard, shards));
  if (const std::vector<std::string> missing = missing_files(folder, names); !missing.empty())
    fail(fmt::format(", and {} of {} shards are missing, the first is {}; fetch them", missing.size(), shards,
                     missing.front()));
  return names;
}

}  // namespace rondo::hugging_face

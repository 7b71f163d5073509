// Files come from strangers, so sizes are bounded, only regular files are read, and a name in an index may
// not be a path.
#include "checkpoint/hugging_face/folder_files.h"

#include "support/files/file.h"
#include "support/text/json_view.h"

namespace rondo::hugging_face {

std::string read_small_file(const std::filesystem::path& file) {
  constexpr std::int64_t kMostBytes = 100'000'000;
  return read_file(file, kMostBytes, FileUse::weights);
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

}  // namespace rondo::hugging_face

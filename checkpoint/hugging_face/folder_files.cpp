// Files are untrusted: sizes are bounded, only regular files are read, and a name in an index may
// not be a path. A NUL is refused before parsing, since the parser would treat it as the end of its
// input. New files are created exclusively, synced and closed with a check, as a network file
// system may report an error at close.
#include "checkpoint/hugging_face/folder_files.h"

#include "support/files/file.h"
#include "support/text/json_view.h"

namespace rondo::hugging_face {

std::string read_small_file(const std::filesystem::path& file) {
  constexpr std::int64_t kMostBytes = 100'000'000;
  return read_file(file, kMostBytes, FileUse::weights);
}

nlohmann::json parse_object(std::string_view text, const std::string& file) {
  std::string problem = "it is not one JSON object";
  try {
    // The parser would treat a NUL as the end of its input.
    if (text.find('\0') == text.npos) {
      nlohmann::json object = nlohmann::json::parse(text);
      if (object.is_object()) return object;
    }
  } catch (const nlohmann::json::parse_error& error) {
    problem = fmt::format("not valid JSON at byte {}", error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    problem = "it has a number beyond the range of a double";
  }
  throw Error(ExitCode::checkpoint, fmt::format("{}: {}; fetch or write it again", file, problem));
}

bool is_shard_name(const std::string& name) {
  return name.size() <= 255 && name.ends_with(".safetensors") && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

}  // namespace rondo::hugging_face

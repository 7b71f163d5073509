#include "datasets/tokenizer/format_parts.h"

#include <charconv>
#include <filesystem>

#include "support/files/file.h"

namespace rondo {

bool claim_id(std::int32_t id, TokenizerFile& file) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= file.is_token.size()) {
    file.is_token.resize(index + 1);
    file.token_bytes.resize(index + 1);
  }
  if (file.is_token[index]) return false;
  file.is_token[index] = true;
  return true;
}

bool claim_token(std::int32_t id, const std::string& name, std::string_view bytes, TokenizerFile& file,
                 Vocabulary& ids) {
  if (ids.contains(name) || !claim_id(id, file)) return false;
  ids.emplace(name, id);
  file.token_bytes[static_cast<std::size_t>(id)] = bytes;
  return true;
}

std::map<std::int32_t, std::string> configured_tokens(const TokenizerFile& file,
                                                      std::vector<std::string>& problems) {
  namespace fs = std::filesystem;
  std::map<std::int32_t, std::string> tokens;
  const fs::path path = fs::path(file.path).parent_path() / kTokenizerConfig;
  std::error_code missing;
  if (!fs::exists(path, missing)) return tokens;
  const JsonSource source{.name = path.filename().string(), .problems = &problems};
  const nlohmann::json document =
      parse_json(read_file(path.string(), kMaxFileBytes, FileUse::data), JsonSource{path.string()});
  const auto decoder = JsonView(document, source).find("added_tokens_decoder");
  if (!decoder) return tokens;
  for (const auto& [key, value] : decoder->object().items()) {
    if (problems.size() >= kMaxProblems) break;
    const JsonView token = decoder->child(value, key);
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const std::string& content = token.at("content").text();
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxId)
      token.refuse("its key must be an id, 0 to 2097151");
    else if (content.empty())
      token.refuse("must have a \"content\" that is not empty");
    else
      tokens.emplace(id, content);
  }
  return tokens;
}

}  // namespace rondo

// The small files of a folder of a model, and its file names. Thread-safe. Failed system calls
// throw a FileError of FileUse::weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rondo::hugging_face {

constexpr const char* kConfig = "config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
// Files of a tokenizer; each is optional.
constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";
constexpr std::string_view kSpecialTokens = "special_tokens_map.json";

// Reads a file of at most 100 MB; indices and tokenizers are far smaller.
std::string read_small_file(const std::filesystem::path& file);

// Parses a JSON object. Throws Error(checkpoint) naming `file` if `text` is not one.
nlohmann::json parse_object(std::string_view text, const std::string& file);

// Returns whether an index may contain `name`: a .safetensors file in the same folder, not a path.
bool is_shard_name(const std::string& name);

}  // namespace rondo::hugging_face

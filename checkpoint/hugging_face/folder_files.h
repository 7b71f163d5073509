// The small files of a folder of a model, and the names in it. Thread-safe. Failed system calls end in a
// FileError of FileUse::weights.
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
// What belongs to the tokenizer, where it is there.
constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::string_view kTokenizerFiles[] = {kTokenizer, "tokenizer_config.json",
                                                "special_tokens_map.json"};

// The whole of a file of at most 100 MB: an index of many shards or a tokenizer is far below.
std::string read_small_file(const std::filesystem::path& file);

// Throws Error(checkpoint) naming `file` where `text` is no JSON object.
nlohmann::json parse_object(std::string_view text, const std::string& file);

// Whether `name` is one that may stand in an index: a file of safetensors beside it, and no path.
bool is_shard_name(const std::string& name);

}  // namespace rondo::hugging_face

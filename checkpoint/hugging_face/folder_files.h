// The small files of a folder of a model, and its file names. Thread-safe. Failed system calls
// throw a FileError of FileUse::weights.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::hugging_face {

constexpr const char* kConfig = "config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
// Tensors that are one in a model with tied embeddings.
constexpr std::string_view kEmbedding = "model.embed_tokens.weight", kHead = "lm_head.weight";
// Files of a tokenizer; each is optional.
constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";
constexpr std::string_view kSpecialTokens = "special_tokens_map.json";

// Returns those of `names` that are not in the folder.
std::vector<std::string> missing_files(const std::filesystem::path& folder, std::vector<std::string> names);

// Reads a file of at most 100 MB; indices and tokenizers are far smaller.
std::string read_small_file(const std::filesystem::path& file);

// Parses a JSON object. Throws Error(checkpoint) naming `file` if `text` is not one.
nlohmann::json parse_object(std::string_view text, const std::string& file);

// Returns whether an index may contain `name`: a .safetensors file in the same folder, not a path.
bool is_shard_name(const std::string& name);

// Returns the name of a shard, counted from 1.
std::string shard_name(std::size_t shard, std::size_t shards);

// Returns the names of all shards of a folder without an index, in order. Throws Error(checkpoint)
// naming what is missing unless they are complete and of one model.
std::vector<std::string> shards_without_index(const std::filesystem::path& folder);

}  // namespace rondo::hugging_face

// Advice about paths that may be meant as repositories of the Hugging Face Hub.
#pragma once

#include <filesystem>
#include <string>

namespace rondo {

// Returns "; nothing is fetched from ..." with the command that fetches it, for a path such as
// "meta-llama/Llama-3.2-1B" whose folder does not exist. Returns "" for any other path.
std::string hub_advice(const std::filesystem::path& path);

}  // namespace rondo

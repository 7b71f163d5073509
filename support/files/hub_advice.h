// Parts of error messages: advice for a path that may name a repository of the Hugging Face Hub,
// and for a clone whose large files were not fetched.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace rondo {

// Returns "; nothing is fetched from ..." with the command that fetches it, for a path such as
// "meta-llama/Llama-3.2-1B" whose folder does not exist. Returns "" for any other path.
std::string hub_advice(const std::filesystem::path& path);

// A clone without Git LFS has a text that begins so in place of each large file.
inline constexpr std::string_view kGitLfsPointer = "version https://git-lfs.github.com/spec/";
inline constexpr const char* kGitLfsAdvice =
    "is the pointer of Git LFS and not the file; fetch the file with `git lfs pull`";

}  // namespace rondo

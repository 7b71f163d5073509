// What a failed system call on a file becomes: one text and one mapping of errno to exit codes for the whole
// program.
#pragma once

#include <filesystem>
#include <string_view>

#include "support/error.h"

namespace rondo {

// What a file is for. It decides the exit code of what its owner can mend (a missing file, permissions, a
// wrong kind of file) and what the message advises.
enum class FileUse {
  run,         // the folder of a run: ExitCode::environment
  data,        // what a run trains on, and tokenizers: ExitCode::data
  output,      // what a command is asked to write: ExitCode::environment
  weights,     // safetensors files and Hugging Face folders: ExitCode::checkpoint
  checkpoint,  // ExitCode::checkpoint
};

// ExitCode::resources where the machine fell short, whatever the use: space, quota, size of files,
// descriptors, memory, a disk or a file server that fails (EIO, ESTALE, ETIMEDOUT). Otherwise the code of the
// use.
ExitCode exit_code_of(int error_number, FileUse use);
ExitCode exit_code_of(FileUse use);
// Whether it is a disk or a file server that fails, and may be well a moment later.
bool may_pass(int error_number);

// "cannot VERB PATH: REASON; ADVICE", with that exit code.
class FileError : public Error {
 public:
  FileError(std::string_view verb, const std::filesystem::path& path, int error_number, FileUse use);
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

}  // namespace rondo

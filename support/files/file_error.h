// Errors of failed system calls on files: one message format and one mapping of errno to exit
// codes.
#pragma once

#include <filesystem>
#include <string_view>

#include "support/error.h"

namespace rondo {

// The purpose of a file. It decides the advice and the exit code of errors that the user can fix: a
// missing file, permissions, a wrong kind of file.
enum class FileUse {
  run,         // the run folder: ExitCode::environment
  data,        // training data and tokenizers: ExitCode::data
  output,      // output of a command: ExitCode::environment
  weights,     // safetensors files and Hugging Face folders: ExitCode::checkpoint
  checkpoint,  // ExitCode::checkpoint
};

// Returns ExitCode::resources if the machine lacks something or fails, for every use. Those are
// space, quota, file size, descriptors, memory, and failures of a disk or a file server (EIO,
// ESTALE, ETIMEDOUT). Otherwise returns the exit code of the use.
ExitCode exit_code_of(int error_number, FileUse use);
ExitCode exit_code_of(FileUse use);
// Whether a disk or a file server failed, so that a retry may succeed.
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

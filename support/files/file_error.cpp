// The only mapping of errno to exit codes. What the machine lacks (space, quota, descriptors,
// memory) and what a disk or a file server fails at (EIO, ESTALE, ...) is always
// ExitCode::resources. Anything else gets the exit code of the file's use: only the caller knows
// whether a missing path is an error of the configuration, of data or of a checkpoint.
#include "support/files/file_error.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rondo {
namespace {

struct UsePolicy {
  ExitCode code;               // if no resource is lacking
  const char* when_full;       // advice for a full disk
  const char* default_advice;  // advice for all other errors
};

constexpr std::array<UsePolicy, 5> kUses = {{
    {ExitCode::environment, "free space or raise the limit, then start again",
     "check its permissions, or choose another job.dump_folder"},
    {ExitCode::data, "free space, then start again", "check that the path exists and its permissions"},
    {ExitCode::environment, "free space, then give the same command again",
     "check its folder and permissions, or choose another output"},
    {ExitCode::checkpoint, "free space or raise the limit, then start again",
     "check that the path exists and its permissions"},
    {ExitCode::checkpoint, "free space or raise the quota",
     "check the permissions of the folder and how it is mounted"},
}};

const UsePolicy& policy_of(FileUse use) { return kUses.at(static_cast<std::size_t>(use)); }

enum class Cause { space, descriptors, memory, device, owner };

Cause cause_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Cause::space;
    case EMFILE:
    case ENFILE:
      return Cause::descriptors;
    case ENOMEM:
      return Cause::memory;
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case EREMOTEIO:
    case ENOTCONN:
    case ESHUTDOWN:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
      return Cause::device;
    default:
      return Cause::owner;
  }
}

const char* advice(int error_number, FileUse use) {
  switch (cause_of(error_number)) {
    case Cause::space:
      return policy_of(use).when_full;
    case Cause::descriptors:
      return "raise the limit of open files (ulimit -n)";
    case Cause::memory:
      return "free memory, then start again";
    case Cause::device:
      return "check the disk or the network file system (dmesg)";
    case Cause::owner:
      break;
  }
  return policy_of(use).default_advice;
}

}  // namespace

ExitCode exit_code_of(FileUse use) { return policy_of(use).code; }

ExitCode exit_code_of(int error_number, FileUse use) {
  return cause_of(error_number) == Cause::owner ? exit_code_of(use) : ExitCode::resources;
}

bool may_pass(int error_number) { return cause_of(error_number) == Cause::device; }

FileError::FileError(std::string_view verb, const std::filesystem::path& path, int error_number, FileUse use)
    : Error(exit_code_of(error_number, use),
            fmt::format("cannot {} {}: {}; {}", verb, path.string(), std::strerror(error_number),
                        advice(error_number, use))),
      error_number_(error_number) {}

}  // namespace rondo

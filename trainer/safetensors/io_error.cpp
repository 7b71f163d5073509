#include "trainer/safetensors/io_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "support/error.h"
#include "support/files/shortage.h"

namespace rondo::safetensors {
void throw_io_error(const char* action, const std::filesystem::path& path, int error_number) {
  const bool shortage = is_shortage(error_number);
  throw Error(shortage ? ExitCode::resources : ExitCode::checkpoint,
              fmt::format("cannot {} {}: {}; {}", action, path.string(), std::strerror(error_number),
                          shortage ? "free space or raise the limit, then start again"
                                   : "check that the path exists and its permissions"));
}

}  // namespace rondo::safetensors

#include "support/files/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "support/error.h"

namespace rondo {

std::string make_temporary_folder(const std::string& name) {
  const char* parent = std::getenv("TMPDIR");
  std::string path = std::string(parent && *parent ? parent : "/tmp") + "/" + name + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    throw Error(ExitCode::resources,
                fmt::format("cannot create the folder {}: {}; set TMPDIR to a writable folder", path,
                            std::strerror(errno)));
  return path;
}

}  // namespace rondo

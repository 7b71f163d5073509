// Which failed system calls mean that the machine ran short of something, and not that the user named a wrong path.
#pragma once

namespace rondo {

// Of disk space, quota, file size, descriptors or memory; a disk that fails (EIO) counts too. Such an error ends in
// ExitCode::resources.
bool is_shortage(int error_number);

}  // namespace rondo

// Finds what the texts of c10d's errors say about NCCL. Knows no LibTorch.
#pragma once

#include <string>

namespace rondo {

// Returns the line of `error` that reports a lack of memory, or "". NCCL allocates its own memory
// at connection and at the first collective of a kind. c10d reports a lack of it in the same way as
// a lost peer.
std::string lack_of_memory(const std::string& error);

// Returns the reason in one line: of an error of NCCL its kind and the last error that it met
// ("NCCL: unhandled system error (...); Bootstrap : no socket interface found"), of any other error
// its first line. c10d puts the place in its own source first, and the last error of NCCL last.
std::string reason_of(const std::string& error);

}  // namespace rondo

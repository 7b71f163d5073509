// Proves that both ends of a connection between launchers know the job's secret. Nothing else is
// read before the proof, and its size is fixed.
//
//   node 0 -> node   "RLP2", 16 random bytes
//   node -> node 0   "RLP2", 16 random bytes, HMAC-SHA256(secret, "node" and both nonces)
//   node 0 -> node   HMAC-SHA256(secret, "node 0" and both nonces), or 32 zeros: refused
//
// HMAC: RFC 2104, by OpenSSL. Later messages are neither encrypted nor signed: see docs/slurm.md.
#pragma once

#include <string>

namespace rondo::launch {

// Returns `bytes` unpredictable bytes as 2 * bytes hexadecimal digits.
std::string random_token(int bytes);

class Handshake {
 public:
  enum class Side { node, node_0 };
  enum class State { going_on, proved, failed };

  Handshake(Side side, std::string secret);

  // Reads and writes without blocking on the socket `fd`. Call it again when the socket is
  // readable. Never reads beyond the proof.
  State go_on(int fd);
  // After `failed`: what the other end did, such as "it closed the connection".
  const std::string& problem() const { return problem_; }
  // Whether the other end refused this end's proof: the secret or the job differs.
  bool was_refused() const { return was_refused_; }

 private:
  State fail(std::string problem);
  State as_node(int fd);
  State as_node_0(int fd);
  bool read_up_to(int fd, std::size_t size);  // false: incomplete, or failed
  bool write(int fd, const std::string& bytes);
  std::string proof_of(Side side) const;

  Side side_;
  std::string secret_, nonce_;
  std::string in_, their_nonce_, problem_;
  bool spoke_ = false, was_refused_ = false, failed_ = false;
};

}  // namespace rondo::launch

// Each message is shorter than any socket buffer, so a write is complete or the connection is
// abandoned. Proofs are compared in constant time. Node 0 sends its proof last, only to an end that
// has proved itself. A refused end receives zeros, so that it can report the refusal to its user.
#include "launch/rendezvous/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "support/error.h"

namespace rondo::launch {
namespace {

constexpr std::string_view kGreeting = "RLP2";
constexpr std::size_t kNonce = 16, kProof = 32;

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count))
    throw Error(ExitCode::environment,
                std::string("cannot get random bytes from the kernel: ") + std::strerror(errno));
  return bytes;
}

}  // namespace

std::string random_token(int bytes) {
  std::string token;
  for (const char byte : random_bytes(static_cast<std::size_t>(bytes)))
    for (const int shift : {4, 0})
      token += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 15];
  return token;
}

Handshake::Handshake(Side side, std::string secret)
    : side_(side), secret_(std::move(secret)), nonce_(random_bytes(kNonce)) {}

Handshake::State Handshake::go_on(int fd) {
  const State state = side_ == Side::node ? as_node(fd) : as_node_0(fd);
  return failed_ ? State::failed : state;
}

Handshake::State Handshake::as_node(int fd) {
  if (their_nonce_.empty()) {
    if (!read_up_to(fd, kGreeting.size() + kNonce)) return State::going_on;
    their_nonce_ = in_.substr(kGreeting.size());
    in_.clear();
    if (!write(fd, std::string(kGreeting) + nonce_ + proof_of(Side::node))) return State::going_on;
  }
  if (!read_up_to(fd, kProof)) return State::going_on;
  was_refused_ = in_ == std::string(kProof, '\0');
  if (was_refused_) return fail("it did not accept the proof of the job's secret");
  if (CRYPTO_memcmp(in_.data(), proof_of(Side::node_0).data(), kProof) != 0)
    return fail("it could not prove that it knows the job's secret");
  return State::proved;
}

Handshake::State Handshake::as_node_0(int fd) {
  if (!std::exchange(spoke_, true) && !write(fd, std::string(kGreeting) + nonce_)) return State::going_on;
  if (!read_up_to(fd, kGreeting.size() + kNonce + kProof)) return State::going_on;
  their_nonce_ = in_.substr(kGreeting.size(), kNonce);
  if (CRYPTO_memcmp(in_.data() + kGreeting.size() + kNonce, proof_of(Side::node).data(), kProof) != 0) {
    write(fd, std::string(kProof, '\0'));
    return fail("it could not prove that it knows the job's secret");
  }
  return write(fd, proof_of(Side::node_0)) ? State::proved : State::going_on;
}

bool Handshake::read_up_to(int fd, std::size_t size) {
  const bool has_magic = size != kProof;
  std::array<char, kGreeting.size() + kNonce + kProof> buffer;
  while (in_.size() < size) {
    const ssize_t received = recv(fd, buffer.data(), size - in_.size(), MSG_DONTWAIT);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && errno == EAGAIN) return false;
    if (received <= 0) {
      fail(received == 0 ? "it closed the connection" : std::strerror(errno));
      return false;
    }
    in_.append(buffer.data(), static_cast<std::size_t>(received));
    const std::size_t known = std::min(in_.size(), kGreeting.size());
    if (has_magic && in_.compare(0, known, kGreeting, 0, known) != 0) {
      fail("it does not speak the launcher's protocol");
      return false;
    }
  }
  return true;
}

bool Handshake::write(int fd, const std::string& bytes) {
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == std::ssize(bytes)) return true;
  fail("it accepts no data");
  return false;
}

Handshake::State Handshake::fail(std::string problem) {
  problem_ = std::move(problem);
  failed_ = true;
  return State::failed;
}

std::string Handshake::proof_of(Side side) const {
  const bool own_first = side_ == Side::node_0;
  const std::string input = (side == Side::node ? "node" : "node 0") + (own_first ? nonce_ : their_nonce_) +
                            (own_first ? their_nonce_ : nonce_);
  std::string proof(kProof, '\0');
  unsigned int length = 0;
  const auto* digest = HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
                            reinterpret_cast<const unsigned char*>(input.data()), input.size(),
                            reinterpret_cast<unsigned char*>(proof.data()), &length);
  RONDO_ASSERT(digest != nullptr && length == kProof, "HMAC-SHA256 gives 32 bytes");
  return proof;
}

}  // namespace rondo::launch

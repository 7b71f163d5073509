// The proof between launchers over a socket pair: two honest ends, ends without the secret, and
// bytes of strangers.
#include "launch/rendezvous/handshake.h"

#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "launch/rendezvous/net.h"

namespace rondo::launch {
namespace {

using Side = Handshake::Side;
using State = Handshake::State;

struct Ends {
  Ends() {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    node = Fd(fds[0]), node_0 = Fd(fds[1]);
  }
  Fd node, node_0;
};

struct Outcome {
  State node, node_0;
};

Outcome shake(Handshake& node, Handshake& node_0) {
  const Ends ends;
  Outcome now{State::going_on, State::going_on};
  for (int round = 0; round < 4; ++round) {
    if (now.node_0 == State::going_on) now.node_0 = node_0.go_on(ends.node_0.get());
    if (now.node == State::going_on) now.node = node.go_on(ends.node.get());
  }
  return now;
}

TEST_CASE("two ends with the same secret prove it to each other") {
  Handshake node(Side::node, "s"), node_0(Side::node_0, "s");
  const Outcome end = shake(node, node_0);
  CHECK(end.node == State::proved);
  CHECK(end.node_0 == State::proved);
}

TEST_CASE("an end with another secret is refused without a proof") {
  Handshake node(Side::node, "s"), node_0(Side::node_0, "t");
  const Outcome end = shake(node, node_0);
  CHECK(end.node_0 == State::failed);
  CHECK(node_0.problem() == "it could not prove that it knows the job's secret");
  CHECK(end.node == State::failed);
  CHECK(node.was_refused());
}

TEST_CASE("node 0 must prove itself too: its own proof reflected to it is refused") {
  const Ends ends;
  Handshake node(Side::node, "s");
  std::string words = "RLP2" + std::string(16, 'n');
  REQUIRE(send(ends.node_0.get(), words.data(), words.size(), 0) == 20);
  CHECK(node.go_on(ends.node.get()) == State::going_on);
  char proof[52];
  REQUIRE(recv(ends.node_0.get(), proof, sizeof proof, 0) == sizeof proof);
  REQUIRE(send(ends.node_0.get(), proof + 20, 32, 0) == 32);  // the node's own proof, reflected
  CHECK(node.go_on(ends.node.get()) == State::failed);
  CHECK_FALSE(node.was_refused());
}

TEST_CASE("a proof may arrive byte by byte, and nothing beyond it is read") {
  const Ends ends;
  Handshake node_0(Side::node_0, "s"), node(Side::node, "s");
  CHECK(node_0.go_on(ends.node_0.get()) == State::going_on);
  const Ends relay;  // forwards bytes between the node and node 0
  char bytes[64];
  REQUIRE(recv(ends.node.get(), bytes, sizeof bytes, 0) == 20);
  REQUIRE(send(relay.node_0.get(), bytes, 20, 0) == 20);
  CHECK(node.go_on(relay.node.get()) == State::going_on);
  REQUIRE(recv(relay.node_0.get(), bytes, sizeof bytes, 0) == 52);
  bytes[52] = 'X';
  for (int i = 0; i < 52; ++i) {
    CHECK(node_0.go_on(ends.node_0.get()) == State::going_on);
    REQUIRE(send(ends.node.get(), bytes + i, i == 51 ? 2 : 1, 0) > 0);
  }
  CHECK(node_0.go_on(ends.node_0.get()) == State::proved);
  char rest[8];
  CHECK(recv(ends.node_0.get(), rest, sizeof rest, 0) == 1);
  CHECK(rest[0] == 'X');
}

// Returns the state of node 0 after this answer to its greeting and the end of the connection.
State judged(Handshake& node_0, const std::string& answer) {
  Ends ends;
  State state = node_0.go_on(ends.node_0.get());
  send(ends.node.get(), answer.data(), answer.size(), 0);
  ends.node.reset();
  for (int i = 0; i < 2 && state == State::going_on; ++i) state = node_0.go_on(ends.node_0.get());
  return state;
}

// Begins a handshake of both sides, and takes the node's answer before node 0 reads it.
std::string answer_of_node(const Ends& ends, Handshake& node_0, Handshake& node) {
  CHECK(node_0.go_on(ends.node_0.get()) == State::going_on);
  CHECK(node.go_on(ends.node.get()) == State::going_on);
  std::string answer(52, '\0');
  REQUIRE(recv(ends.node_0.get(), answer.data(), answer.size(), 0) == 52);
  return answer;
}

TEST_CASE("a proof that is replayed, cut anywhere, or forged in any bit admits nobody") {
  const Ends ends;
  Handshake first(Side::node_0, "s"), node(Side::node, "s");
  const std::string answer = answer_of_node(ends, first, node);
  Handshake replayed(Side::node_0, "s");
  CHECK(judged(replayed, answer) == State::failed);
  CHECK(replayed.problem() == "it could not prove that it knows the job's secret");
  for (std::size_t bytes = 0; bytes < answer.size(); ++bytes) {
    Handshake cut(Side::node_0, "s");
    CHECK(judged(cut, answer.substr(0, bytes)) == State::failed);
    CHECK_FALSE(cut.problem().empty());
  }
  // A handshake with one bit of the node's answer flipped.
  const auto forged = [](std::size_t bit) {
    const Ends now;
    Handshake node_0(Side::node_0, "s"), other(Side::node, "s");
    std::string proof = answer_of_node(now, node_0, other);
    if (bit < 8 * proof.size()) proof[bit / 8] = static_cast<char>(proof[bit / 8] ^ (1 << bit % 8));
    REQUIRE(send(now.node.get(), proof.data(), proof.size(), 0) == 52);
    return node_0.go_on(now.node_0.get());
  };
  CHECK(forged(std::string::npos) == State::proved);
  for (std::size_t bit = 0; bit < std::size_t{8} * 52; ++bit) CHECK(forged(bit) == State::failed);
}

TEST_CASE("tokens are hexadecimal digits and never repeat") {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = random_token(16);
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(seen.insert(token).second);
  }
}

}  // namespace
}  // namespace rondo::launch

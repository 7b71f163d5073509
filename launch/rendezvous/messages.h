// Messages between launchers, and their encoding.
//
// A frame is the magic "RLP1", the length of its body (32 bits, big-endian, at most kMaxBody) and
// the body, a JSON object. Bytes from the network are checked field by field; an invalid message
// ends the connection.
//
//   node to node 0    join, failed, ended, signalled, beat
//   node 0 to node    refused, start, stop, forward, say, finish, beat
//
// Before the first frame both ends prove that they know the job's secret (handshake.h).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/rendezvous/net.h"
#include "support/error.h"
#include "support/stopwatch.h"

namespace rondo::launch {

using Json = nlohmann::json;

inline constexpr std::size_t kMaxBody = 256 * 1024;

// One end of a connection between launchers. Never blocks.
class Channel {
 public:
  explicit Channel(Fd fd) : fd_(std::move(fd)), heard_s_(now_s()) {}

  void send(const Json& message);
  // Reads the bytes that have arrived, at most kMaxBody per call. After the other end closed, or
  // sent invalid bytes, closed() is true. Complete messages before that are still returned.
  std::vector<Json> receive();
  void flush();
  // Sends a heartbeat at most once a second, so that silence means loss.
  void beat();

  bool closed() const { return !fd_; }
  const std::string& why_closed() const { return why_closed_; }
  void close(std::string why);
  double silent_s() const { return now_s() - heard_s_; }
  int fd() const { return fd_.get(); }
  bool wants_to_write() const { return !out_.empty(); }

 private:
  bool take_frame(std::vector<Json>& messages);

  Fd fd_;
  std::string in_, out_, why_closed_;
  double heard_s_, beaten_s_ = 0;
};

// A failed rank. Codes are those of the process: exit_code 0..255, or signal > 0.
struct Failure {
  int rank = 0, local_rank = 0, node = 0;
  std::int64_t pid = 0;
  int exit_code = 0, signal = 0;
  double time_s = 0;        // since the epoch
  std::int64_t step = -1;   // the current step; 0 before the first; -1: unknown
  std::int64_t saved = -1;  // step of the latest checkpoint; -1: unknown
  std::string host, message, log;

  int code() const { return signal > 0 ? 128 + signal : exit_code; }
  bool lost_peer() const { return code() == static_cast<int>(ExitCode::peer); }
};

// The progress of one rank when a rank of its node failed.
struct RankStatus {
  int rank = 0;
  std::int64_t step = 0, calls = 0;  // current step; collectives called so far
  bool stopped = false;              // the process: stopped by a signal, or ended by itself
  bool waits = false;                // for another rank
  double still_s = 0;                // seconds since its last note
  std::string where;                 // "at aten.mm for layers.0 (forward)"
  // of the latest or awaited collective, and the current module; may be empty
  std::string collective, module;
};

struct Join {
  std::string job, host, role;
  int nodes = 0, ranks = 0, node_rank = -1;  // -1: any
  std::int64_t pid = 0;
};

struct Start {
  int generation = 0, node = 0, nodes = 0;
  int first_rank = 0, world_size = 0;            // ranks of a node are consecutive
  int first_role_rank = 0, role_world_size = 0;  // the same among the ranks of one role
  std::string master_addr;
  int master_port = 0;
  // prefix of the names in the ranks' store, so that others cannot guess them
  std::string store_token;
};

// Sent when all ranks of a node have ended.
struct Ended {
  int generation = 0;
  // the node's own failure; nullopt if its ranks only ended as ordered
  std::optional<Failure> first;
  std::vector<int> codes;  // by local rank
  // slowest and fastest rank of the node if one failed; may be empty
  std::vector<RankStatus> statuses = {};
};

struct Finish {
  int code = 0;
  std::string report;  // text to print; may be empty
};

Json to_json(const RankStatus&);
Json to_json(const Join&);
Json to_json(const Start&);
Json to_json(const Ended&);
Json to_json(const Finish&);
// Return nullopt if a field is missing, has another type, or is out of range.
std::optional<Join> to_join(const Json&);
std::optional<Start> to_start(const Json&);
std::optional<Ended> to_ended(const Json&);
std::optional<Finish> to_finish(const Json&);

// Returns the field, cut to `longest` bytes. "" if there is no such text.
std::string text_field(const Json& object, const char* name, std::size_t longest);
std::optional<std::int64_t> integer_field(const Json& object, const char* name, std::int64_t lowest,
                                          std::int64_t highest);

}  // namespace rondo::launch

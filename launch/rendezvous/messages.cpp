// Frames with a length prefix, parsed without exceptions. The magic is compared from the first byte
// on, so that a stranger is dropped before its length is read. Fields are read through a collector
// that records whether all were valid. An invalid field rejects the whole message. A failed write
// does not close the connection: messages that the other end sent before are still read, and then
// the end of the connection.
#include "launch/rendezvous/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>

#include "support/text/printable.h"

namespace rondo::launch {
namespace {

constexpr std::string_view kMagic = "RLP1";
constexpr std::size_t kHeader = 8;
constexpr std::size_t kMaxText = 8192;
constexpr int kMaxWorldSize = 1 << 24;
constexpr int kMaxCodes = 1024;
constexpr int kMaxStatuses = 2;
constexpr int kReadsAtOnce = 16;  // bounds the time spent on one busy connection

// Reads fields and records whether all were valid.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  int integer(const char* name, int lowest, int highest) {
    return static_cast<int>(large(name, lowest, highest));
  }
  std::int64_t large(const char* name, std::int64_t lowest, std::int64_t highest) {
    const auto value = integer_field(object_, name, lowest, highest);
    sound_ &= value.has_value();
    return value.value_or(lowest);
  }
  std::string text(const char* name) {
    const auto field = object_.find(name);
    sound_ &= field != object_.end() && field->is_string();
    std::string value = text_field(object_, name, kMaxText);
    sound_ &= value.find('\0') == std::string::npos;
    return value;
  }
  double number(const char* name) {
    const auto field = object_.find(name);
    const bool is_number = field != object_.end() && field->is_number();
    sound_ &= is_number && std::isfinite(field->get<double>());
    return sound_ ? field->get<double>() : 0;
  }
  void require(bool holds) { sound_ &= holds; }
  bool sound() const { return sound_; }

 private:
  const Json& object_;
  bool sound_ = true;
};

Json failure_to_json(const Failure& failure) {
  return {{"rank", failure.rank},           {"local_rank", failure.local_rank},
          {"node", failure.node},           {"pid", failure.pid},
          {"exit_code", failure.exit_code}, {"signal", failure.signal},
          {"time_s", failure.time_s},       {"step", failure.step},
          {"saved", failure.saved},         {"host", failure.host},
          {"message", failure.message},     {"log", failure.log}};
}

std::optional<Failure> to_failure(const Json& object) {
  Fields fields(object);
  Failure failure;
  failure.rank = fields.integer("rank", 0, kMaxWorldSize);
  failure.local_rank = fields.integer("local_rank", 0, kMaxCodes);
  failure.node = fields.integer("node", 0, kMaxWorldSize);
  failure.pid = fields.large("pid", 0, INT64_MAX);
  failure.exit_code = fields.integer("exit_code", 0, 255);
  failure.signal = fields.integer("signal", 0, 64);
  failure.time_s = fields.number("time_s");
  failure.step = fields.large("step", -1, INT64_MAX);
  failure.saved = fields.large("saved", -1, INT64_MAX);
  failure.host = fields.text("host");
  failure.message = fields.text("message");
  failure.log = fields.text("log");
  return fields.sound() ? std::optional(failure) : std::nullopt;
}

std::optional<RankStatus> to_rank_status(const Json& object) {
  Fields fields(object);
  RankStatus status;
  status.rank = fields.integer("rank", 0, kMaxWorldSize);
  status.step = fields.large("step", 0, INT64_MAX);
  status.calls = fields.large("calls", 0, INT64_MAX);
  status.stopped = fields.integer("stopped", 0, 1) != 0;
  status.waits = fields.integer("waits", 0, 1) != 0;
  status.still_s = fields.number("still_s");
  status.where = fields.text("where");
  status.collective = fields.text("collective");
  status.module = fields.text("module");
  return fields.sound() ? std::optional(status) : std::nullopt;
}

bool has_type(const Json& message, const char* type) {
  return message.is_object() && text_field(message, "type", 32) == type;
}

}  // namespace

std::string text_field(const Json& object, const char* name, std::size_t longest) {
  if (!object.is_object()) return "";
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string()) return "";
  const auto& text = field->get_ref<const std::string&>();
  return printable(text.substr(0, longest));
}

std::optional<std::int64_t> integer_field(const Json& object, const char* name, std::int64_t lowest,
                                          std::int64_t highest) {
  if (!object.is_object()) return std::nullopt;
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_integer()) return std::nullopt;
  if (field->is_number_unsigned() && field->get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  const auto value = field->get<std::int64_t>();
  return value >= lowest && value <= highest ? std::optional(value) : std::nullopt;
}

void Channel::close(std::string why) {
  fd_.reset();
  out_.clear();
  why_closed_ = std::move(why);
}

void Channel::send(const Json& message) {
  if (closed()) return;
  const std::string body = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  out_ += kMagic;
  for (int shift = 24; shift >= 0; shift -= 8) out_ += static_cast<char>(body.size() >> shift & 0xff);
  out_ += body;
  flush();
}

void Channel::flush() {
  while (!closed() && !out_.empty()) {
    const ssize_t sent = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;  // full or broken; receive() still reads what the other end sent before
    out_.erase(0, static_cast<std::size_t>(sent));
  }
}

void Channel::beat() {
  if (closed() || now_s() - beaten_s_ < 1) return;
  beaten_s_ = now_s();
  send({{"type", "beat"}});
}

std::vector<Json> Channel::receive() {
  std::vector<Json> messages;
  char buffer[16384];
  for (int reads = 0; reads < kReadsAtOnce && !closed(); ++reads) {
    const ssize_t got = recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      close(got == 0 ? "it closed the connection" : std::strerror(errno));
      break;
    }
    heard_s_ = now_s();
    in_.append(buffer, static_cast<std::size_t>(got));
    while (!closed() && take_frame(messages)) {
    }
  }
  return messages;
}

bool Channel::take_frame(std::vector<Json>& messages) {
  const std::size_t known = std::min(in_.size(), kMagic.size());
  if (in_.compare(0, known, kMagic, 0, known) != 0) {
    close("it does not speak the launcher's protocol");
    return false;
  }
  if (in_.size() < kHeader) return false;
  std::size_t length = 0;
  for (std::size_t i = kMagic.size(); i < kHeader; ++i)
    length = length << 8 | static_cast<unsigned char>(in_[i]);
  if (length > kMaxBody) {
    close("it sent a message that is too long");
    return false;
  }
  if (in_.size() < kHeader + length) return false;
  Json message = Json::parse(in_.begin() + kHeader,
                             in_.begin() + static_cast<std::ptrdiff_t>(kHeader + length), nullptr, false);
  in_.erase(0, kHeader + length);
  if (!message.is_object()) {
    close("it sent a message that is no JSON object");
    return false;
  }
  messages.push_back(std::move(message));
  return true;
}

Json to_json(const RankStatus& status) {
  return {{"rank", status.rank},           {"step", status.step},
          {"calls", status.calls},         {"stopped", status.stopped ? 1 : 0},
          {"waits", status.waits ? 1 : 0}, {"still_s", status.still_s},
          {"where", status.where},         {"collective", status.collective},
          {"module", status.module}};
}

Json to_json(const Join& join) {
  return {{"type", "join"},      {"job", join.job},     {"host", join.host},           {"role", join.role},
          {"nodes", join.nodes}, {"ranks", join.ranks}, {"node_rank", join.node_rank}, {"pid", join.pid}};
}

std::optional<Join> to_join(const Json& message) {
  Fields fields(message);
  fields.require(has_type(message, "join"));
  Join join;
  join.job = fields.text("job");
  join.host = fields.text("host");
  join.role = fields.text("role");
  join.nodes = fields.integer("nodes", 1, kMaxWorldSize);
  join.ranks = fields.integer("ranks", 1, kMaxCodes);
  join.node_rank = fields.integer("node_rank", -1, kMaxWorldSize);
  join.pid = fields.large("pid", 0, INT64_MAX);
  return fields.sound() ? std::optional(join) : std::nullopt;
}

Json to_json(const Start& start) {
  return {{"type", "start"},
          {"generation", start.generation},
          {"node", start.node},
          {"nodes", start.nodes},
          {"first_rank", start.first_rank},
          {"world_size", start.world_size},
          {"first_role_rank", start.first_role_rank},
          {"role_world_size", start.role_world_size},
          {"master_addr", start.master_addr},
          {"master_port", start.master_port},
          {"store_token", start.store_token}};
}

std::optional<Start> to_start(const Json& message) {
  Fields fields(message);
  fields.require(has_type(message, "start"));
  Start start;
  start.generation = fields.integer("generation", 0, INT_MAX);
  start.nodes = fields.integer("nodes", 1, kMaxWorldSize);
  start.node = fields.integer("node", 0, start.nodes - 1);
  start.world_size = fields.integer("world_size", 1, kMaxWorldSize);
  start.first_rank = fields.integer("first_rank", 0, start.world_size - 1);
  start.role_world_size = fields.integer("role_world_size", 1, start.world_size);
  start.first_role_rank = fields.integer("first_role_rank", 0, start.role_world_size - 1);
  start.master_addr = fields.text("master_addr");
  start.master_port = fields.integer("master_port", 1, 65535);
  start.store_token = fields.text("store_token");
  return fields.sound() ? std::optional(start) : std::nullopt;
}

Json to_json(const Ended& ended) {
  Json message = {{"type", "ended"}, {"generation", ended.generation}, {"codes", ended.codes}};
  if (ended.first) message["first"] = failure_to_json(*ended.first);
  for (const RankStatus& status : ended.statuses) message["standings"].push_back(to_json(status));
  return message;
}

std::optional<Ended> to_ended(const Json& message) {
  Fields fields(message);
  fields.require(has_type(message, "ended"));
  Ended ended;
  ended.generation = fields.integer("generation", 0, INT_MAX);
  const auto codes = message.find("codes");
  if (!fields.sound() || codes == message.end() || !codes->is_array() || codes->size() > kMaxCodes)
    return std::nullopt;
  for (const Json& code : *codes) {
    if (!code.is_number_unsigned() || code.get<std::uint64_t>() > 255) return std::nullopt;
    ended.codes.push_back(code.get<int>());
  }
  if (message.contains("first")) {
    ended.first = to_failure(message["first"]);
    if (!ended.first) return std::nullopt;
  }
  const auto statuses = message.find("standings");
  if (statuses == message.end()) return ended;
  if (!statuses->is_array() || statuses->size() > kMaxStatuses) return std::nullopt;
  for (const Json& one : *statuses) {
    const auto status = to_rank_status(one);
    if (!status) return std::nullopt;
    ended.statuses.push_back(*status);
  }
  return ended;
}

Json to_json(const Finish& finish) {
  return {{"type", "finish"}, {"code", finish.code}, {"report", finish.report}};
}

std::optional<Finish> to_finish(const Json& message) {
  Fields fields(message);
  fields.require(has_type(message, "finish"));
  Finish finish;
  finish.code = fields.integer("code", 0, 255);
  finish.report = fields.text("report");
  return fields.sound() ? std::optional(finish) : std::nullopt;
}

}  // namespace rondo::launch

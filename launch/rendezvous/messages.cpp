// Parses frames with a length prefix, without exceptions. The magic is compared from the first byte
// on, so a stranger is dropped before it can make the reader wait for a length. Problems of fields
// are collected, and a message is accepted entirely or not at all. A failed write does not close
// the channel: data that the other end sent before it left can still be read, and the read then
// sees the end.
#include "launch/rendezvous/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "support/text/json_view.h"
#include "support/text/printable.h"

namespace rondo::launch {
namespace {

constexpr std::string_view kMagic = "RLP1";
constexpr std::size_t kHeader = 8;
constexpr std::size_t kMaxText = 8192;
constexpr int kMaxWorldSize = 1 << 24;
constexpr int kMaxCodes = 1024, kMaxStatuses = 2;
constexpr int kReadsAtOnce = 16;  // a busy end must not delay the others

// Returns the result of `read` for `object`, or nullopt if any field is invalid.
template <class Read>
auto if_sound(const Json& object, Read read) {
  std::vector<std::string> problems;
  const JsonSource source{.problems = &problems};
  auto message = read(JsonView(object, source));
  return problems.empty() ? std::optional(std::move(message)) : std::nullopt;
}

int integer(const JsonView& fields, const char* name, int least, int most) {
  return static_cast<int>(fields.at(name).integer(least, most));
}
std::int64_t large(const JsonView& fields, const char* name, std::int64_t least) {
  return fields.at(name).integer(least, INT64_MAX);
}
std::string text(const JsonView& fields, const char* name) {
  return printable(fields.at(name).text().substr(0, kMaxText));
}

void require_type(const JsonView& message, const std::string& type) {
  if (const JsonView field = message.at("type"); field.text() != type) field.refuse("must be " + type);
}

// Returns the items of an array. Refuses more than `most`.
std::vector<JsonView> items(const JsonView& array, std::size_t most) {
  if (array.raw().size() <= most) return array.items();
  array.refuse("is too long");
  return {};
}

Json failure_to_json(const Failure& failure) {
  return {{"rank", failure.rank},           {"local_rank", failure.local_rank},
          {"node", failure.node},           {"pid", failure.pid},
          {"exit_code", failure.exit_code}, {"signal", failure.signal},
          {"time_s", failure.time_s},       {"step", failure.step},
          {"saved", failure.saved},         {"host", failure.host},
          {"message", failure.message},     {"log", failure.log}};
}

Failure failure_of(const JsonView& fields) {
  return {.rank = integer(fields, "rank", 0, kMaxWorldSize),
          .local_rank = integer(fields, "local_rank", 0, kMaxCodes),
          .node = integer(fields, "node", 0, kMaxWorldSize),
          .pid = large(fields, "pid", 0),
          .exit_code = integer(fields, "exit_code", 0, 255),
          .signal = integer(fields, "signal", 0, 64),
          .time_s = fields.at("time_s").number(),
          .step = large(fields, "step", -1),
          .saved = large(fields, "saved", -1),
          .host = text(fields, "host"),
          .message = text(fields, "message"),
          .log = text(fields, "log")};
}

RankStatus rank_status_of_json(const JsonView& fields) {
  return {.rank = integer(fields, "rank", 0, kMaxWorldSize),
          .step = large(fields, "step", 0),
          .calls = large(fields, "calls", 0),
          .stopped = integer(fields, "stopped", 0, 1) != 0,
          .waits = integer(fields, "waits", 0, 1) != 0,
          .still_s = fields.at("still_s").number(),
          .where = text(fields, "where"),
          .collective = text(fields, "collective"),
          .module = text(fields, "module")};
}

}  // namespace

std::string text_field(const Json& object, const char* name, std::size_t longest) {
  const auto field = object.is_object() ? object.find(name) : object.end();
  if (field == object.end() || !field->is_string()) return "";
  return printable(field->get_ref<const std::string&>().substr(0, longest));
}

std::optional<std::int64_t> integer_field(const Json& object, const char* name, std::int64_t lowest,
                                          std::int64_t highest) {
  const auto field = object.is_object() ? object.find(name) : object.end();
  return field == object.end() ? std::nullopt : whole_number(*field, lowest, highest);
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
    close("it sent a message that is not a JSON object");
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
  return if_sound(message, [](const JsonView& fields) {
    require_type(fields, "join");
    return Join{.job = text(fields, "job"),
                .host = text(fields, "host"),
                .role = text(fields, "role"),
                .nodes = integer(fields, "nodes", 1, kMaxWorldSize),
                .ranks = integer(fields, "ranks", 1, kMaxCodes),
                .node_rank = integer(fields, "node_rank", -1, kMaxWorldSize),
                .pid = large(fields, "pid", 0)};
  });
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
  return if_sound(message, [](const JsonView& fields) {
    require_type(fields, "start");
    Start start;
    start.generation = integer(fields, "generation", 0, INT_MAX);
    start.nodes = integer(fields, "nodes", 1, kMaxWorldSize);
    start.node = integer(fields, "node", 0, start.nodes - 1);
    start.world_size = integer(fields, "world_size", 1, kMaxWorldSize);
    start.first_rank = integer(fields, "first_rank", 0, start.world_size - 1);
    start.role_world_size = integer(fields, "role_world_size", 1, start.world_size);
    start.first_role_rank = integer(fields, "first_role_rank", 0, start.role_world_size - 1);
    start.master_addr = text(fields, "master_addr");
    start.master_port = integer(fields, "master_port", 1, 65535);
    start.store_token = text(fields, "store_token");
    return start;
  });
}

Json to_json(const Ended& ended) {
  Json message = {{"type", "ended"}, {"generation", ended.generation}, {"codes", ended.codes}};
  if (ended.first) message["first"] = failure_to_json(*ended.first);
  for (const RankStatus& status : ended.statuses) message["statuses"].push_back(to_json(status));
  return message;
}

std::optional<Ended> to_ended(const Json& message) {
  return if_sound(message, [](const JsonView& fields) {
    require_type(fields, "ended");
    Ended ended;
    ended.generation = integer(fields, "generation", 0, INT_MAX);
    for (const JsonView& code : items(fields.at("codes"), kMaxCodes))
      ended.codes.push_back(static_cast<int>(code.integer(0, 255)));
    if (fields.raw().contains("first")) ended.first = failure_of(fields.at("first"));
    if (fields.raw().contains("statuses"))
      for (const JsonView& status : items(fields.at("statuses"), kMaxStatuses))
        ended.statuses.push_back(rank_status_of_json(status));
    return ended;
  });
}

Json to_json(const Finish& finish) {
  return {{"type", "finish"}, {"code", finish.code}, {"report", finish.report}};
}

std::optional<Finish> to_finish(const Json& message) {
  return if_sound(message, [](const JsonView& fields) {
    require_type(fields, "finish");
    return Finish{.code = integer(fields, "code", 0, 255), .report = text(fields, "report")};
  });
}

}  // namespace rondo::launch

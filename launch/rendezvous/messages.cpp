// Parses frames with a length prefix, without exceptions. The magic is compared from the first byte
// on, so a stranger is dropped before it can make the reader wait for a length. Problems of fields
// are collected, and a message is accepted entirely or not at all. A failed write does not close
// the channel: data that the other end sent before it left can still be read, and the read then
// sees the end.
#include "launch/rendezvous/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "support/printable.h"
#include "support/stopwatch.h"
#include "support/text/json_view.h"

namespace rondo::launch {
namespace {

constexpr std::string_view kMagic = "RLP1";
constexpr std::size_t kHeader = 8;
constexpr std::size_t kMaxText = 8192;
constexpr int kMaxWorldSize = 1 << 24;
constexpr int kMaxCodes = 1024, kMaxStatuses = 2;
constexpr int kReadsAtOnce = 16;  // a busy end must not delay the others

// Encodes the fields of a message as JSON, or decodes them. Each message lists its fields once, in
// `fields`.
struct Archive {
  std::optional<JsonView> source = std::nullopt;  // unset: encodes
  Json object = Json::object();                   // the encoded fields

  template <class Value, class Decode>
  void field(const char* name, Value& value, Decode decode) {
    if (source)
      value = static_cast<Value>(decode(source->at(name)));
    else
      object[name] = value;
  }
  template <class Integer>
  void integer(const char* name, Integer& value, std::int64_t least,
               std::int64_t most = std::numeric_limits<Integer>::max()) {
    field(name, value, [&](const JsonView& view) { return view.integer(least, most); });
  }
  void flag(const char* name, bool& value) {
    int number = value ? 1 : 0;
    integer(name, number, 0, 1);
    value = number != 0;
  }
  void number(const char* name, double& value) {
    field(name, value, [](const JsonView& view) { return view.number(); });
  }
  void text(const char* name, std::string& value) {
    field(name, value, [](const JsonView& view) { return printable(view.text().substr(0, kMaxText)); });
  }
  void type(const std::string& name) {
    if (!source)
      object["type"] = name;
    else if (const JsonView field = source->at("type"); field.text() != name)
      field.refuse("must be " + name);
  }
  // Returns the items of an array to decode. Refuses more than `most`.
  std::vector<JsonView> items(const char* name, std::size_t most) const {
    const JsonView array = source->at(name);
    if (array.raw().size() <= most) return array.items();
    array.refuse("is too long");
    return {};
  }
};

void fields(Archive& archive, Failure& failure) {
  archive.integer("rank", failure.rank, 0, kMaxWorldSize);
  archive.integer("local_rank", failure.local_rank, 0, kMaxCodes);
  archive.integer("node", failure.node, 0, kMaxWorldSize);
  archive.integer("pid", failure.pid, 0);
  archive.integer("exit_code", failure.exit_code, 0, 255);
  archive.integer("signal", failure.signal, 0, 64);
  archive.number("time_s", failure.time_s);
  archive.integer("step", failure.step, -1);
  archive.integer("saved", failure.saved, -1);
  archive.text("host", failure.host);
  archive.text("message", failure.message);
  archive.text("log", failure.log);
}

void fields(Archive& archive, RankStatus& status) {
  archive.integer("rank", status.rank, 0, kMaxWorldSize);
  archive.integer("step", status.step, 0);
  archive.integer("calls", status.calls, 0);
  archive.flag("stopped", status.stopped);
  archive.flag("waits", status.waits);
  archive.number("still_s", status.still_s);
  archive.text("where", status.where);
  archive.text("collective", status.collective);
  archive.text("module", status.module);
}

void fields(Archive& archive, Join& join) {
  archive.type("join");
  archive.text("job", join.job);
  archive.text("host", join.host);
  archive.text("role", join.role);
  archive.integer("nodes", join.nodes, 1, kMaxWorldSize);
  archive.integer("ranks", join.ranks, 1, kMaxCodes);
  archive.integer("node_rank", join.node_rank, -1, kMaxWorldSize);
  archive.integer("pid", join.pid, 0);
}

// Bounds that depend on another field follow it.
void fields(Archive& archive, Start& start) {
  archive.type("start");
  archive.integer("generation", start.generation, 0);
  archive.integer("nodes", start.nodes, 1, kMaxWorldSize);
  archive.integer("node", start.node, 0, start.nodes - 1);
  archive.integer("world_size", start.world_size, 1, kMaxWorldSize);
  archive.integer("first_rank", start.first_rank, 0, start.world_size - 1);
  archive.integer("role_world_size", start.role_world_size, 1, start.world_size);
  archive.integer("first_role_rank", start.first_role_rank, 0, start.role_world_size - 1);
  archive.text("master_addr", start.master_addr);
  archive.integer("master_port", start.master_port, 1, 65535);
  archive.text("store_token", start.store_token);
}

template <class Message>
Json encoded(Message message) {
  Archive archive;
  fields(archive, message);
  return archive.object;
}

template <class Message>
Message decoded(const JsonView& object) {
  Message message;
  Archive archive{object};
  fields(archive, message);
  return message;
}

void fields(Archive& archive, Ended& ended) {
  archive.type("ended");
  archive.integer("generation", ended.generation, 0);
  if (archive.source) {
    for (const JsonView& code : archive.items("codes", kMaxCodes))
      ended.codes.push_back(static_cast<int>(code.integer(0, 255)));
    if (archive.source->raw().contains("first")) ended.first = decoded<Failure>(archive.source->at("first"));
    if (archive.source->raw().contains("statuses"))
      for (const JsonView& status : archive.items("statuses", kMaxStatuses))
        ended.statuses.push_back(decoded<RankStatus>(status));
    return;
  }
  archive.object["codes"] = ended.codes;
  if (ended.first) archive.object["first"] = encoded(*ended.first);
  for (const RankStatus& status : ended.statuses) archive.object["statuses"].push_back(encoded(status));
}

void fields(Archive& archive, Finish& finish) {
  archive.type("finish");
  archive.integer("code", finish.code, 0, 255);
  archive.text("report", finish.report);
}

// Returns nullopt if any field is invalid.
template <class Message>
std::optional<Message> decoded_if_valid(const Json& object) {
  std::vector<std::string> problems;
  const JsonSource source{.problems = &problems};
  auto message = decoded<Message>(JsonView(object, source));
  return problems.empty() ? std::optional(std::move(message)) : std::nullopt;
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

Json to_json(const RankStatus& status) { return encoded(status); }
Json to_json(const Join& join) { return encoded(join); }
Json to_json(const Start& start) { return encoded(start); }
Json to_json(const Ended& ended) { return encoded(ended); }
Json to_json(const Finish& finish) { return encoded(finish); }

std::optional<Join> to_join(const Json& message) { return decoded_if_valid<Join>(message); }
std::optional<Start> to_start(const Json& message) { return decoded_if_valid<Start>(message); }
std::optional<Ended> to_ended(const Json& message) { return decoded_if_valid<Ended>(message); }
std::optional<Finish> to_finish(const Json& message) { return decoded_if_valid<Finish>(message); }

}  // namespace rondo::launch

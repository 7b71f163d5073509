#include "launch/rendezvous/messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <random>

#include "launch/failure.h"
#include "support/error.h"
#include "support/stopwatch.h"
#include "support/text/utc_time.h"
#include "tests/launch/process.h"

namespace rondo::launch {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Pair {
  Pair() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    raw = Fd(ends[0]);
    channel.emplace(Fd(ends[1]));
  }
  void write(const std::string& bytes) {
    REQUIRE(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  Fd raw;
  std::optional<Channel> channel;
};

std::string frame(const std::string& body) {
  std::string text = "RLP1";
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(body.size() >> shift & 0xff);
  return text + body;
}

TEST_CASE("a message arrives whole in any pieces") {
  Pair pair;
  const std::string bytes = frame(R"({"type":"beat"})") + frame(R"({"type":"x"})");
  std::vector<Json> received;
  for (const char byte : bytes) {
    pair.write(std::string(1, byte));
    for (Json& message : pair.channel->receive()) received.push_back(std::move(message));
  }
  REQUIRE(received.size() == 2);
  CHECK(received[1]["type"] == "x");
  pair.raw.reset();
  CHECK(pair.channel->receive().empty());
  CHECK(pair.channel->why_closed() == "it closed the connection");
}

TEST_CASE("bytes that are no message close the channel") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"GET / HTTP/1.1\r\n\r\n", "does not speak"},
      {"R\n", "does not speak"},
      {std::string("RLP1\xff\xff\xff\xff", 8), "too long"},
      {frame("[1]"), "not a JSON object"},
      {frame("{\"a\":"), "not a JSON object"},
      {frame(std::string(100000, '[')), "not a JSON object"}};
  for (const auto& [bytes, why] : cases) {
    Pair pair;
    pair.write(bytes);
    CHECK(pair.channel->receive().empty());
    CHECK(pair.channel->closed());
    CHECK_THAT(pair.channel->why_closed(), ContainsSubstring(why));
  }
}

TEST_CASE("messages survive a round trip") {
  Start start;
  start.node = 1;
  start.nodes = 2;
  start.first_rank = 3;
  start.world_size = 5;
  start.first_role_rank = 2;
  start.role_world_size = 4;
  start.master_addr = "h";
  start.master_port = 12;
  start.store_token = "t";
  CHECK(to_json(*to_start(to_json(start))) == to_json(start));
  Ended ended{2, Failure{}, {0, 137}};
  ended.first->message = "bad \xff byte";
  Json travelled = Json::parse(to_json(ended).dump(-1, ' ', false, Json::error_handler_t::replace));
  CHECK(to_ended(travelled)->codes == std::vector{0, 137});
  CHECK(to_ended(travelled)->first.has_value());
  ended.statuses = {{1, 11, 80, true, false, 3.5, "at aten.mm", "", "layers.0"},
                    {0, 12, 88, false, true, 3, "in x", "x", ""}};
  travelled = Json::parse(to_json(ended).dump(-1, ' ', false, Json::error_handler_t::replace));
  CHECK(to_json(*to_ended(travelled))["statuses"] == travelled["statuses"]);
}

TEST_CASE("each message is encoded as these bytes") {
  Start start{.generation = 1, .node = 1, .nodes = 2, .first_rank = 3, .world_size = 5};
  start.first_role_rank = 2, start.role_world_size = 4, start.master_addr = "h", start.master_port = 12;
  start.store_token = "t";
  Failure failure{.rank = 3, .local_rank = 1, .node = 1, .pid = 77, .exit_code = 4, .signal = 0};
  failure.time_s = 2.5, failure.step = 9, failure.saved = 5;
  failure.host = "h", failure.message = "m", failure.log = "l";
  const Ended ended{2, failure, {0, 137}, {{1, 11, 80, true, false, 3.5, "w", "c", "m"}}};
  CHECK(to_json(Join{"j", "h", "r", 2, 1, -1, 5}).dump() ==
        R"({"host":"h","job":"j","node_rank":-1,"nodes":2,"pid":5,"ranks":1,"role":"r","type":"join"})");
  CHECK(to_json(start).dump() ==
        R"({"first_rank":3,"first_role_rank":2,"generation":1,"master_addr":"h","master_port":12,"node":1,)"
        R"("nodes":2,"role_world_size":4,"store_token":"t","type":"start","world_size":5})");
  CHECK(to_json(ended).dump() ==
        R"({"codes":[0,137],"first":{"exit_code":4,"host":"h","local_rank":1,"log":"l","message":"m",)"
        R"("node":1,"pid":77,"rank":3,"saved":5,"signal":0,"step":9,"time_s":2.5},"generation":2,)"
        R"("statuses":[{"calls":80,"collective":"c","module":"m","rank":1,"step":11,"still_s":3.5,)"
        R"("stopped":1,"waits":0,"where":"w"}],"type":"ended"})");
  CHECK(to_json(Ended{0, std::nullopt, {}}).dump() == R"({"codes":[],"generation":0,"type":"ended"})");
  CHECK(to_json(Finish{3, "x"}).dump() == R"({"code":3,"report":"x","type":"finish"})");
}

// Reads `sound` with each field dropped, or given a value of another type.
template <typename Read>
void check_every_field(const Json& sound, Read read) {
  REQUIRE(read(sound));
  for (const auto& [name, value] : sound.items())
    for (const Json& bad :
         {Json(nullptr), Json(-7), Json(1e300), Json(UINT64_MAX), Json::array({-1}), Json::object()}) {
      Json damaged = sound;
      damaged[name] = bad;
      if (name == "node_rank" || (bad == UINT64_MAX && value.is_number_float())) continue;
      CHECK_FALSE(read(damaged));
      damaged.erase(name);
      CHECK_FALSE(read(damaged));
    }
}

TEST_CASE("a message with any field missing or damaged is refused") {
  check_every_field(to_json(Join{"j", "h", "r", 2, 1, -1, 5}), to_join);
  Start start;
  start.nodes = start.world_size = start.role_world_size = start.master_port = 1;
  check_every_field(to_json(start), to_start);
  check_every_field(to_json(Finish{0, "x"}), to_finish);
  check_every_field(Json::parse(to_json(Ended{0, std::nullopt, {1}}).dump()), to_ended);
  const auto read_status = [](const Json& status) {
    Json ended = to_json(Ended{0, std::nullopt, {1}});
    ended["statuses"] = {status};
    return to_ended(Json::parse(ended.dump()));
  };
  Json status = to_json(RankStatus{1, 11, 80, false, false, 3, "w", "c", "m"});
  REQUIRE(status.erase("still_s") == 1);  // because -7 is a valid number, too
  CHECK_FALSE(read_status(status));
  check_every_field(status, [&](Json damaged) {
    damaged["still_s"] = 3.0;
    return read_status(damaged);
  });
}

TEST_CASE("an error file is read in torchrun's format, and malformed files are ignored") {
  Scratch folder;
  const std::string path = folder.path("error.json");
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_error_file(path);
  };
  const auto report =
      read(R"({"message":{"message":"Type: text","errorCode":4,"extraInfo":{"timestamp":"1700000000"}}})");
  REQUIRE(report);
  CHECK(report->message == "Type: text");
  CHECK(report->time_s == 1700000000);
  CHECK(report->exit_code == 4);
  CHECK(read(R"({"message":"plain"})")->message == "plain");
  CHECK(read(R"({"message":{"message":")" + std::string(5000, 'x') + "\"}}")->message.size() == 2000);
  for (const char* text : {"", "{", "[]", "{\"a\":1}", "\xff"}) CHECK_FALSE(read(text));
  CHECK_FALSE(read_error_file(folder.path("absent")));
}

TEST_CASE("the cause is the earliest failure that is no consequence") {
  Failure late, early, lost_peer;
  late.exit_code = early.exit_code = 4;
  lost_peer.exit_code = 7;
  late.time_s = 2;
  early.time_s = 1;
  CHECK(is_likelier_cause(early, late));
  CHECK_FALSE(is_likelier_cause(late, early));
  CHECK(is_likelier_cause(late, lost_peer));
  CHECK_FALSE(is_likelier_cause(lost_peer, late));
  Failure culprit = lost_peer;
  culprit.rank = 3;
  culprit.time_s = 5;
  const HangCulprit hang_culprit{{3, 11, 80, false, false, 3, "", "", ""}, ""};
  CHECK_FALSE(is_likelier_cause(culprit, lost_peer));
  CHECK(is_likelier_cause(culprit, lost_peer, hang_culprit));
  CHECK_FALSE(is_likelier_cause(lost_peer, culprit, hang_culprit));
  CHECK_FALSE(is_likelier_cause(culprit, late, hang_culprit));
}

TEST_CASE("different exit codes give the first code other than 0 and 7") {
  CHECK(common_code({0, 0}) == 0);
  CHECK(common_code({75, 75}) == 75);
  CHECK(common_code({0, 143, 1}) == 143);
  CHECK(common_code({7, 143}) == 143);
  CHECK(common_code({0, 7}) == 7);
}

TEST_CASE("a rank's own exit.json is kept if it has the same exit code") {
  Scratch folder;
  const std::string path = folder.path("exit.json");
  Failure failure;
  failure.rank = 1;
  failure.exit_code = 4;
  failure.message = "no file";
  failure.time_s = 1769860800.5;
  write_exit_json(folder.path(), failure, 2, file_time_now_s());
  Json written = Json::parse(text_of(path));
  CHECK(written["exit_code"] == 4);
  CHECK(written["signal"].is_null());
  CHECK(written["rank"] == 1);
  CHECK(written["attempt"] == 2);
  CHECK(written["by"] == "launcher");
  CHECK_THAT(written["reason"].get<std::string>(),
             ContainsSubstring("exit code 4 (data or tokenizer): no file"));
  CHECK(utc_seconds(written["ended_at"].get<std::string>()) == failure.time_s);

  const double began_s = file_time_now_s();
  const std::string own = R"({"exit_code":4,"by":"rank 1"})";
  std::ofstream(path) << own;
  write_exit_json(folder.path(), failure, 0, began_s);
  CHECK(text_of(path) == own);
  const HangCulprit hang_culprit{{3, 11, 80, false, false, 3, "at aten.mm", "", "layers.0"},
                                 "rank 3 blocks the others"};
  write_exit_json(folder.path(), failure, 0, began_s, hang_culprit);
  written = Json::parse(text_of(path));
  CHECK(written["by"] == "rank 1");
  CHECK(written["culprit"]["rank"] == 3);
  CHECK(written["culprit"]["step"] == 11);
  CHECK(written["culprit"]["text"] == "rank 3 blocks the others");
  const Json event = Json::parse(text_of(folder.path("events.jsonl")));
  CHECK(event["event"] == "held_up");
  CHECK(event["culprit"] == written["culprit"]);
  failure.signal = 9;
  write_exit_json(folder.path(), failure, 0, began_s);
  CHECK(Json::parse(text_of(path))["exit_code"] == 137);
  CHECK(Json::parse(text_of(path))["signal"] == SIGKILL);
  CHECK_THROWS_AS(write_exit_json(folder.path("absent"), failure, 0, began_s), rondo::Error);
}

TEST_CASE("a listening port is refused to others, a bound port can be bound again by a program") {
  int failure = 0;
  const Listener bound = bind_to("127.0.0.1", 0, false, failure);
  REQUIRE(bound.fd);
  const Listener listening = bind_to("127.0.0.1", bound.port, true, failure);
  REQUIRE(listening.fd);
  CHECK(listening.is_loopback);
  CHECK_FALSE(bind_to("127.0.0.1", bound.port, true, failure).fd);
  CHECK(failure == EADDRINUSE);
  CHECK_FALSE(bind_to("192.0.2.1", 0, true, failure).fd);
  CHECK(failure == EADDRNOTAVAIL);
}

TEST_CASE("the last line of a log is the last that is not blank") {
  Scratch folder;
  const std::string path = folder.path("log");
  std::ofstream(path) << std::string(20000, 'x') << "\nfirst\nlast \n\n";
  CHECK(last_line_of(path) == "last");
  CHECK(last_line_of(folder.path("absent")).empty());
}

}  // namespace
}  // namespace rondo::launch

// Hostile connections to the rendezvous port of a job of two nodes on this machine, before the
// second node comes and while the job runs: `flood --connections N --rate PER_SECOND`. The job must
// not notice.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_macros.hpp>
#include <list>
#include <random>

#include "launch/rendezvous/net.h"
#include "support/stopwatch.h"
#include "tests/launch/launcher_cost.h"
#include "tests/launch/process.h"

namespace rondo::launch {
namespace {

int connections_wanted = 2000;
int rate_wanted = 0;  // connections a second; 0: as fast as it goes

// What a connection does to the port.
enum class Attack { idle, slow, endless_frames, wrong_proof, garbage };
constexpr int kAttacks = 5;

std::string bytes_of(Attack attack, std::mt19937& random) {
  const auto noise = [&](std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  std::string frames;
  switch (attack) {
    case Attack::idle:
      return "";
    case Attack::slow:
      return "R";  // and one byte more at each wave
    case Attack::endless_frames:
      for (int i = 0; i < 3000; ++i) frames += std::string("RLP1\0\0\0\2{}", 10);
      return frames;
    case Attack::wrong_proof:
      return "RLP2" + noise(48);
    default:
      return noise(1 + random() % 2000);
  }
}

class Flood {
 public:
  explicit Flood(std::string port) : port_(std::stoi(port)) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  // Opens `count` connections of all kinds in turn; the newest kOpen stay.
  void wave(int count) {
    for (int i = 0; i < count; ++i) {
      std::string why;
      Fd fd = connect_to("127.0.0.1", port_, "", 1000, why);
      if (!fd) {
        ++refused_;
        continue;
      }
      const auto attack = static_cast<Attack>(opened_++ % kAttacks);
      const std::string bytes = bytes_of(attack, random_);
      if (!bytes.empty()) send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      open_.push_back({std::move(fd), attack});
      if (open_.size() > kOpen) open_.pop_front();
      if (rate_wanted > 0) std::this_thread::sleep_for(std::chrono::microseconds(1'000'000 / rate_wanted));
    }
    for (const auto& [fd, attack] : open_) {
      if (attack == Attack::slow) send(fd.get(), "L", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (attack == Attack::endless_frames) {
        const std::string frames = bytes_of(attack, random_);
        send(fd.get(), frames.data(), frames.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
    }
  }
  int opened() const { return opened_; }
  int refused() const { return refused_; }

 private:
  static constexpr std::size_t kOpen = 600;
  struct Open {
    Fd fd;
    Attack attack;
  };
  const int port_;
  std::mt19937 random_{7};
  std::list<Open> open_;
  int opened_ = 0, refused_ = 0;
};

TEST_CASE("a flood of hostile connections costs the launcher little, and the job ends as without it") {
  const std::string port = free_port();
  const Scratch folder;
  const std::string script =
      "echo up; while ! test -e " + folder.path("end") + "; do sleep 0.05; done; echo well";
  const auto node = [&](const char* rank) {
    return shell({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=j", "--rdzv-endpoint=127.0.0.1:" + port,
                  "--node-rank=" + std::string(rank)},
                 script);
  };
  const std::vector<std::pair<std::string, std::string>> secret = {{"RONDO_RDZV_SECRET", "open sesame"}};
  Launch first(node("0"), secret);
  connected(port);
  Flood flood(port);
  int most_mib = 0;
  const double began_s = now_s(), cpu_began_s = cpu_seconds(first.pid());
  const auto waves = [&](int until) {
    while (flood.opened() + flood.refused() < until) {
      flood.wave(std::min(500, until - flood.opened() - flood.refused()));
      most_mib = std::max(most_mib, resident_mib(first.pid()));
    }
  };
  waves(connections_wanted / 2);
  Launch second(node("1"), secret);
  const double second_began_s = now_s();
  double joined_after_s = 0;
  while (joined_after_s == 0 && now_s() - second_began_s < 20) {
    flood.wave(50);
    if (!second.out().empty()) joined_after_s = now_s() - second_began_s;
  }
  CHECK(joined_after_s > 0);
  waves(connections_wanted);
  const double seconds = now_s() - began_s, cpu_s = cpu_seconds(first.pid()) - cpu_began_s;
  std::ofstream(folder.path("end")) << "";
  const Finished a = first.wait(), b = second.wait();
  fmt::print(
      "{} connections in {:.1f} s, {} more found no place; launcher: {} MiB at most, {:.2f} s of its core "
      "({:.1f} %, {:.0f} us a connection); the second node joined after {:.2f} s\n",
      flood.opened(), seconds, flood.refused(), most_mib, cpu_s, 100 * cpu_s / seconds,
      1e6 * cpu_s / std::max(1, flood.opened()), joined_after_s);
  CHECK(flood.opened() > connections_wanted / 2);
  CHECK(most_mib < 64);
  for (const Finished& end : {a, b}) {
    INFO(end.out << end.err);
    CHECK(end.code == 0);
    CHECK(end.out.find("well\n") != std::string::npos);
    CHECK(end.err.find("error") == std::string::npos);
  }
}

}  // namespace
}  // namespace rondo::launch

int main(int argc, char** argv) {
  using namespace rondo::launch;
  Catch::Session session;
  session.cli(
      session.cli() | Catch::Clara::Opt(connections_wanted, "N")["--connections"]("how many (default 2000)") |
      Catch::Clara::Opt(rate_wanted, "N")["--rate"]("of them a second (default: as fast as it goes)"));
  const int wrong = session.applyCommandLine(argc, argv);
  return wrong != 0 ? wrong : session.run();
}

// A run of four ranks under faults of every kind, in random but seeded order: `soak --faults N
// --seed S`. In the end it has the bits of a run that nothing happened to. After every end nobody
// lives, and no checkpoint is lost or half.
//
// What the machine must allow (private mounts and networks) is tried once; faults that need it are
// left out, and said so, where it does not.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_session.hpp>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>

#include "tests/run/kills.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

int faults_wanted = 100;
unsigned seed_wanted = 1;

// The loopback device of this process's own network.
bool set_loopback(bool up) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = up ? IFF_UP | IFF_RUNNING : 0;
  const bool done = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return done;
}
bool has_own_network() { return unshare(CLONE_NEWNET) == 0 && set_loopback(true); }
bool has_own_mounts() {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

class Soak : public KilledRun {
 public:
  explicit Soak(unsigned seed)
      : KilledRun(seed, /*ranks=*/4, /*interval=*/5, {"--comm.train_timeout_seconds=5"}),
        own_network_(has_own_network()) {
    fs::create_directories(place_ / "run");
    has_small_disk_ =
        has_own_mounts() && mount("tmpfs", (place_ / "run").c_str(), "tmpfs", 0, "size=64m") == 0;
    if (!own_network_) std::cout << "left out: cut link, for private networks are not permitted here\n";
    if (!has_small_disk_) std::cout << "left out: full disk, for private mounts are not permitted here\n";
  }
  ~Soak() {
    if (has_small_disk_) umount2((place_ / "run").c_str(), MNT_DETACH);
  }

  void suffer() {
    struct Fault {
      const char* name;
      bool possible;
      void (Soak::*happen)();
    };
    const Fault faults[] = {{"kill of a rank", true, &Soak::kill_rank},
                            {"kill of the launcher", true, &Soak::kill_launcher},
                            {"kill of the launcher and its guard", true, &Soak::kill_guard_and_launcher},
                            {"kill of a rank inside a save", true, &Soak::kill_inside_a_save},
                            {"rank that stands still for a while", true, &Soak::pause_rank},
                            {"SIGTERM to a rank", true, &Soak::terminate_rank},
                            {"SIGTERM to the launcher", true, &Soak::terminate_launcher},
                            {"SIGHUP to the launcher", true, &Soak::hang_up},
                            {"EIO in a save", true, &Soak::fail_in_a_save},
                            {"full disk for a while", has_small_disk_, &Soak::fill_disk},
                            {"cut link", own_network_, &Soak::cut_link}};
    const Fault& fault = faults[static_cast<std::size_t>(number(std::size(faults)))];
    if (!fault.possible) return;
    ++happened_[fault.name];
    INFO(fault.name);
    (this->*fault.happen)();
  }
  void tell() const {
    for (const auto& [name, times] : happened_) std::cout << times << " times: " << name << "\n";
    std::cout << "ends with exit code:";
    for (const auto& [code, times] : ends_) std::cout << " " << code << " (" << times << ")";
    std::cout << "\nnewest checkpoint: step " << newest() << "\n";
  }

 private:
  // Runs, lets `happen` do its harm after a while, and takes the end, which must have one of the
  // codes; where no step was done yet, one of `while_starting` will do.
  template <class Happen>
  void disturb(std::vector<int> codes, const std::vector<int>& while_starting, const Happen& happen,
               const Variables& more = {}) {
    const Mark mark;
    Variables variables = {mark.setting()};
    variables.insert(variables.end(), more.begin(), more.end());
    launch::Launch launcher(words(1'000'000), variables);
    const auto size = [&] { return fs::exists(metrics()) ? fs::file_size(metrics()) : 0; };
    const auto began = size();
    if (number(4) == 0) {
      wait_ms(number(1500));  // while it starts
    } else {
      launch::holds_soon([&] { return size() > began; });
      wait_ms(number(1000));
    }
    if (size() <= began) codes.insert(codes.end(), while_starting.begin(), while_starting.end());
    happen(launcher, mark);
    const launch::Finished end = launcher.wait(kPatience);
    ++ends_[end.code];
    INFO(end.out << end.err);
    CHECK(std::find(codes.begin(), codes.end(), end.code) != codes.end());
    check_what_is_left(mark);
    check_no_half_folder();
  }

  void kill_rank() {
    disturb({137}, {75, 143}, [&](auto& launcher, const Mark& mark) {
      const auto victims = mark.processes(fmt::format("RANK={}", number(ranks_)));
      for (const int pid : victims) kill(pid, SIGKILL);
      if (victims.empty()) launcher.signal(SIGTERM);
    });
  }
  void kill_launcher() {
    disturb({137}, {}, [](auto& launcher, const Mark&) { launcher.signal(SIGKILL); });
  }
  void kill_guard_and_launcher() {
    disturb({137}, {}, [](auto& launcher, const Mark& mark) {
      for (const int pid : mark.processes())
        if (text_of(fmt::format("/proc/{}/environ", pid)).find("LOCAL_RANK=") == std::string::npos &&
            pid != launcher.pid())
          kill(pid, SIGKILL);
      launcher.signal(SIGKILL);
    });
  }
  void pause_rank() {
    disturb({75}, {143}, [&](auto& launcher, const Mark& mark) {
      const auto victims = mark.processes(fmt::format("RANK={}", number(ranks_)));
      for (const int pid : victims) kill(pid, SIGSTOP);
      wait_ms(500 + number(1500));
      for (const int pid : victims) kill(pid, SIGCONT);
      wait_ms(200);
      launcher.signal(SIGTERM);
    });
  }
  void terminate_rank() {
    disturb({75}, {143}, [&](auto& launcher, const Mark& mark) {
      const auto victims = mark.processes(fmt::format("RANK={}", number(ranks_)));
      for (const int pid : victims) kill(pid, SIGTERM);
      if (victims.empty()) launcher.signal(SIGTERM);
    });
  }
  void terminate_launcher() {
    disturb({75}, {143}, [](auto& launcher, const Mark&) { launcher.signal(SIGTERM); });
  }
  void hang_up() {
    disturb({75}, {129, 143}, [](auto& launcher, const Mark&) { launcher.signal(SIGHUP); });
  }
  void fail_in_a_save() {
    const Variables shim =
        failing(Mark(), std::to_string(number(ranks_)), "EIO", std::to_string(1 + number(60)));
    disturb(
        {75, 9}, {143}, [](auto& launcher, const Mark&) { launcher.signal(SIGTERM); },
        Variables(shim.begin() + 1, shim.end()));
  }
  // A full disk costs saves; three in a row end the run with 9.
  void fill_disk() {
    disturb({75, 9}, {143}, [&](auto& launcher, const Mark&) {
      const fs::path ballast = place_ / "run/ballast";
      {
        std::ofstream file(ballast, std::ios::binary);
        const std::string block(1 << 16, 'x');
        while (file << block << std::flush) {
        }
      }
      wait_ms(number(1500));
      fs::remove(ballast);
      wait_ms(number(500));
      launcher.signal(SIGTERM);
    });
  }
  // Ranks of one machine talk over its loopback. What waits longer than comm.train_timeout_seconds
  // is over.
  void cut_link() {
    disturb({7, 75}, {143}, [&](auto& launcher, const Mark&) {
      set_loopback(false);
      wait_ms(number(2) == 0 ? 300 : 8000);
      set_loopback(true);
      wait_ms(500);
      launcher.signal(SIGTERM);
    });
  }

  static void wait_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
  fs::path metrics() const { return place_ / "run/metrics.jsonl"; }

  // Besides checkpoints there may be at most what one save and one prune were at when they were
  // ended.
  void check_no_half_folder() const {
    if (!fs::exists(folder_of_checkpoints())) return;
    int begun = 0;
    for (const checkpoint::Entry& entry : checkpoint::list(folder_of_checkpoints()))
      begun += entry.state == checkpoint::State::temp || entry.state == checkpoint::State::uncommitted;
    CHECK(begun <= 3);
  }

  const bool own_network_;
  bool has_small_disk_ = false;
  std::map<std::string, int> happened_;
  std::map<int, int> ends_;
};

TEST_CASE(
    "a run under faults of every kind loses no checkpoint and ends with the bits of one that had none") {
  Soak run(seed_wanted);
  for (int fault = 0; fault < faults_wanted; ++fault) {
    INFO("fault " << fault);
    run.suffer();
  }
  run.tell();
  run.check_bits();
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  Catch::Session session;
  session.cli(session.cli() |
              Catch::Clara::Opt(rondo::faults_wanted, "N")["--faults"]("how many (default 100)") |
              Catch::Clara::Opt(rondo::seed_wanted, "S")["--seed"]("another order (default 1)"));
  const int wrong = session.applyCommandLine(argc, argv);
  return wrong != 0 ? wrong : session.run();
}

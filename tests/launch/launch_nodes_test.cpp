// `rondo launch` on several nodes, all of them on this machine.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <regex>
#include <string>

#include "tests/launch/launcher_cost.h"
#include "tests/launch/process.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::launch {
namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<std::string> c10d(const std::string& port, std::vector<std::string> more = {}) {
  std::vector<std::string> flags = {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=j",
                                    "--rdzv-endpoint=127.0.0.1:" + port};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> fixed(const std::string& port, int node, std::vector<std::string> more = {}) {
  std::vector<std::string> flags = {"--nnodes=2", "--node-rank=" + std::to_string(node),
                                    "--master-addr=127.0.0.1", "--master-port=" + port};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

const char* const kPrintRanks =
    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_PORT";

TEST_CASE("two nodes with --node-rank rendezvous at the master port, which rank 0 then serves") {
  const std::string port = free_port();
  Launch second(shell(fixed(port, 1), kPrintRanks));
  Launch first(shell(fixed(port, 0, {"--nproc-per-node=2"}), kPrintRanks));
  const Finished a = first.wait(), b = second.wait();
  CHECK(a.code == 0);
  CHECK(b.code == 0);
  CHECK_THAT(a.out, ContainsSubstring("[default0]: 0/3 0/2 0/2 " + port + "\n") &&
                        ContainsSubstring("[default1]: 1/3 1/2 0/2 " + port + "\n"));
  CHECK(b.out == "[default2]: 2/3 0/1 1/2 " + port + "\n");
}

TEST_CASE("two nodes without --node-rank are numbered as they join, and agree on a port") {
  const std::string port = free_port();
  Launch first(shell(c10d(port), kPrintRanks)), second(shell(c10d(port), kPrintRanks));
  const Finished a = first.wait(), b = second.wait();
  CHECK(a.code == 0);
  CHECK(b.code == 0);
  const std::string both = a.out + b.out;
  CHECK_THAT(both,
             ContainsSubstring("[default0]: 0/2 0/1 0/2 ") && ContainsSubstring("[default1]: 1/2 0/1 1/2 "));
  CHECK(a.out.substr(a.out.rfind(' ')) == b.out.substr(b.out.rfind(' ')));
}

TEST_CASE("a failure on one node ends the other with the same exit code, and both report it") {
  const std::string port = free_port();
  Launch first(shell(fixed(port, 0), "sleep 60")), second(shell(fixed(port, 1), "exit 5"));
  for (Launch* node : {&first, &second}) {
    const Finished end = node->wait();
    CHECK(end.code == 5);
    CHECK_THAT(end.err, ContainsSubstring("rank 1 (local rank 0, node 1, ") &&
                            ContainsSubstring("exit code 5 (checkpoint)"));
  }
}

TEST_CASE("all nodes restart together") {
  const std::string port = free_port();
  const std::string script =
      "echo try $TORCHELASTIC_RESTART_COUNT; test $RANK = 0 || test $TORCHELASTIC_RESTART_COUNT = 1";
  Launch first(shell(fixed(port, 0, {"--max-restarts=1"}), script)),
      second(shell(fixed(port, 1, {"--max-restarts=1"}), script));
  for (Launch* node : {&first, &second}) {
    const Finished end = node->wait();
    CHECK(end.code == 0);
    CHECK_THAT(end.out, ContainsSubstring("try 1\n"));
  }
}

TEST_CASE("a lost node ends the job with 7, whichever node it is") {
  for (const int lost : {0, 1}) {
    const std::string port = free_port();
    Launch first(shell(fixed(port, 0), "echo up; sleep 60")),
        second(shell(fixed(port, 1), "echo up; sleep 60"));
    REQUIRE(holds_soon([&] { return !first.out().empty() && !second.out().empty(); }));
    (lost == 0 ? first : second).signal(SIGKILL);
    const Finished end = (lost == 0 ? second : first).wait();
    CHECK(end.code == 7);
    CHECK_THAT(end.err, ContainsSubstring(lost == 0 ? "lost the launcher of node 0"
                                                    : "was lost: it closed the connection"));
  }
}

TEST_CASE("a stopped node is lost after the read timeout") {
  const std::string port = free_port();
  Launch first(shell(fixed(port, 0, {"--rdzv-conf=read_timeout=2"}), "echo up; sleep 60"));
  Launch second(shell(fixed(port, 1), "echo up; sleep 60"));
  REQUIRE(holds_soon([&] { return !first.out().empty() && !second.out().empty(); }));
  second.signal(SIGSTOP);
  const Finished end = first.wait();
  CHECK(end.code == 7);
  CHECK_THAT(end.err, ContainsSubstring("was lost: it sent nothing for 2 s"));
}

TEST_CASE("a log on a hanging disk blocks neither the launcher nor the job") {
  const Scratch logs;
  const std::string port = free_port(), folder = (logs / "none/node_1/attempt_0/0").string();
  std::filesystem::create_directories(folder);
  const std::string log = folder + "/stdout.log";
  REQUIRE(mkfifo(log.c_str(), 0600) == 0);
  const int reader = open(log.c_str(), O_RDONLY | O_NONBLOCK);  // reads nothing
  const std::vector<std::string> options = {"--rdzv-conf=read_timeout=2", "--log-dir=" + logs.root().string(),
                                            "--tee=1"};
  const std::string script = "head -c 200000 /dev/zero | tr '\\0' x; sleep 4; echo done";
  Launch first(shell(fixed(port, 0, options), script)), second(shell(fixed(port, 1, options), script));
  CHECK(first.wait().code == 0);
  const Finished end = second.wait();
  close(reader);
  CHECK(end.code == 0);
  CHECK_THAT(end.out, ContainsSubstring("done"));
}

TEST_CASE("a signal to one launcher reaches the ranks of all nodes") {
  const std::string port = free_port();
  const std::string script = "trap 'exit 75' TERM; echo up; while :; do sleep 0.02; done";
  Launch first(shell(fixed(port, 0), script)), second(shell(fixed(port, 1), script));
  REQUIRE(holds_soon([&] { return !first.out().empty() && !second.out().empty(); }));
  second.signal(SIGTERM);
  CHECK(first.wait().code == 75);
  CHECK(second.wait().code == 75);
}

TEST_CASE("missing nodes are reported after the join timeout, with the nodes that joined") {
  const Finished run =
      launch(shell(fixed(free_port(), 0, {"--rdzv-conf=join_timeout=0.3", "--rdzv-id=j"}), ":"));
  CHECK(run.code == 6);
  CHECK_THAT(run.err, ContainsSubstring("1 of 2 nodes joined job \"j\" at 127.0.0.1:") &&
                          ContainsSubstring("node 0)"));
}

TEST_CASE("a node that cannot reach node 0 fails after the join timeout") {
  const std::string port = free_port();
  const Finished run = launch(shell(fixed(port, 1, {"--rdzv-conf=join_timeout=0.3"}), ":"));
  CHECK(run.code == 6);
  CHECK_THAT(run.err,
             ContainsSubstring("did not answer at 127.0.0.1:" + port + " within 0.3 s: Connection refused"));
}

TEST_CASE("a signal before the rendezvous is complete ends the launcher") {
  const std::string port = free_port();
  Launch run(shell(fixed(port, 0), ":"));
  std::string why;
  REQUIRE(
      holds_soon([&] { return static_cast<bool>(connect_to("127.0.0.1", std::stoi(port), "", 100, why)); }));
  run.signal(SIGTERM);
  const Finished end = run.wait();
  CHECK(end.code == 143);
  CHECK_THAT(end.err, ContainsSubstring("ended by SIGTERM before the ranks were started"));
}

TEST_CASE("a node of another job, or with another number of nodes, is refused") {
  const std::string port = free_port();
  Launch first(shell(fixed(port, 0, {"--rdzv-id=j"}), kPrintRanks));
  Finished end = launch(shell(fixed(port, 1, {"--rdzv-id=k"}), kPrintRanks));
  CHECK(end.code == 6);
  CHECK_THAT(end.err, ContainsSubstring("refused this node: another job, or another secret; --rdzv-id and "
                                        "RONDO_RDZV_SECRET must be the same on all nodes"));
  end = launch(shell(
      {"--nnodes=3", "--node-rank=1", "--master-addr=127.0.0.1", "--master-port=" + port, "--rdzv-id=j"},
      kPrintRanks));
  CHECK(end.code == 6);
  CHECK_THAT(end.err, ContainsSubstring("node 0 has --nnodes 2, this node 3"));
  Launch second(shell(fixed(port, 1, {"--rdzv-id=j"}), kPrintRanks));
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("a second node with the same --node-rank is refused") {
  const std::string port = free_port();
  const auto node = [&](const std::string& rank) {
    return shell({"--nnodes=3", "--node-rank=" + rank, "--master-addr=127.0.0.1", "--master-port=" + port},
                 kPrintRanks);
  };
  Launch first(node("0")), second(node("1")), third(node("1"));
  CHECK(holds_soon([&] {
    return (second.err() + third.err()).find("refused this node: --node-rank 1 is taken") !=
           std::string::npos;
  }));
}

TEST_CASE("a node must know the secret, from the environment or a file, and ranks never see it") {
  Scratch folder;
  std::ofstream(folder.path("secret")) << "open sesame\n";
  const std::string port = free_port();
  const std::string script = "echo secret:$RONDO_RDZV_SECRET. $RONDO_STORE_TOKEN";
  Launch first(shell(fixed(port, 0), script), {{"RONDO_RDZV_SECRET", "open sesame"}});
  for (const char* wrong : {"", "open barley"}) {
    const Finished end = launch(shell(fixed(port, 1), script), {{"RONDO_RDZV_SECRET", wrong}});
    CHECK(end.code == 6);
    CHECK_THAT(end.err, ContainsSubstring("refused this node: another job, or another secret"));
  }
  Launch second(shell(fixed(port, 1, {"--rdzv-secret-file=" + folder.path("secret")}), script));
  const Finished a = first.wait(), b = second.wait();
  CHECK(a.code == 0);
  CHECK(b.code == 0);
  CHECK_THAT(a.out, ContainsSubstring("secret:. "));
  const std::string token = a.out.substr(a.out.rfind(' '));
  CHECK(token.size() == 1 + 32 + 1);
  CHECK(b.out.substr(b.out.rfind(' ')) == token);
}

TEST_CASE("strangers do not keep nodes out, cost little, and do not delay the end") {
  const std::string port = free_port();
  Launch first(shell(c10d(port, {"--node-rank=0"}), "sleep 0.2"));
  std::vector<Fd> idle;
  for (int i = 0; i < 400; ++i) idle.push_back(connected(port));
  const double before_s = cpu_seconds(first.pid());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(cpu_seconds(first.pid()) - before_s < 0.1);  // it sleeps
  CHECK(resident_mib(first.pid()) < 64);
  Launch second(shell(c10d(port, {"--node-rank=1"}), "sleep 0.2"));
  CHECK(second.wait().code == 0);
  CHECK(first.wait().code == 0);  // with the remaining idle connections still open
}

TEST_CASE("endless messages of a stranger are not stored, before or during a job") {
  const std::string port = free_port();
  Launch first(shell(c10d(port, {"--node-rank=0"}), "sleep 0.5"));
  const auto flood = [&](const Fd& fd) {
    std::string frames;
    for (int i = 0; i < 10'000; ++i) frames += std::string("RLP1\0\0\0\2{}", 10);
    for (int i = 0; i < 50; ++i) send(fd.get(), frames.data(), frames.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  flood(connected(port));
  CHECK(resident_mib(first.pid()) < 64);
  Launch second(shell(c10d(port, {"--node-rank=1"}), "echo up; sleep 0.5"));
  REQUIRE(holds_soon([&] { return !second.out().empty(); }));
  flood(connected(port));
  CHECK(resident_mib(first.pid()) < 64);
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("garbage at the rendezvous does no harm") {
  const std::string port = free_port();
  Launch first(shell(fixed(port, 0), kPrintRanks));
  std::vector<Fd> strangers;
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string("RLP1\xff\xff\xff\xff", 8),
        std::string("RLP1\0\0\0\2{}", 10), std::string(100000, '\0'), std::string("RLP1")}) {
    Fd stranger = connected(port);
    send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move(stranger));
  }
  Launch second(shell(fixed(port, 1), kPrintRanks));
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("a rendezvous port in use is exit code 6 on node 0") {
  int failure = 0;
  const Listener taken = bind_to("127.0.0.1", 0, true, failure);
  const Finished run = launch(shell(fixed(std::to_string(taken.port), 0), ":"));
  CHECK(run.code == 6);
  CHECK_THAT(run.err, ContainsSubstring("is in use; end the program that holds it"));
}

TEST_CASE("a rank that is stopped after the others have ended is named, and ends once it is continued") {
  Launch launcher(shell({"--nproc-per-node", "2"}, "[ $RANK = 1 ] || kill -STOP $$"));
  std::smatch pid;
  std::string err;
  REQUIRE(holds_soon([&] {
    err = launcher.err();
    return std::regex_search(err, pid, std::regex("rank 0 \\(pid ([0-9]+)\\) is stopped by a signal"));
  }));
  kill(std::stoi(pid[1]), SIGCONT);
  CHECK(launcher.wait().code == 0);
}

}  // namespace
}  // namespace rondo::launch

// `rondo launch` on one node, with real processes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launch/options.h"
#include "launch/rendezvous/net.h"
#include "support/machine/core_room.h"
#include "tests/launch/process.h"

namespace rondo::launch {
namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<int> numbers_in(const std::string& path) {
  std::istringstream text(text_of(path));
  std::vector<int> numbers;
  for (int number; text >> number;) numbers.push_back(number);
  return numbers;
}

TEST_CASE("ranks have torchrun's environment variables") {
  const Finished run = launch(
      shell({"--nproc-per-node=2", "--rdzv-id=j", "--role=r", "--max-restarts=3"},
            "echo =$RANK $LOCAL_RANK $GROUP_RANK $ROLE_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_WORLD_SIZE "
            "$ROLE_WORLD_SIZE $ROLE_NAME $MASTER_ADDR $TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT "
            "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_USE_AGENT_STORE $TORCH_NCCL_ASYNC_ERROR_HANDLING; "
            "test $MASTER_PORT -gt 0 && test -d $(dirname $TORCHELASTIC_ERROR_FILE) && test -n "
            "\"$RONDO_RUN_FOLDER_FILE\""));
  CHECK(run.code == 0);
  CHECK_THAT(run.out, ContainsSubstring("[r0]: =0 0 0 0 2 2 1 2 r 127.0.0.1 j 0 3 False 1\n"));
  CHECK_THAT(run.out, ContainsSubstring("[r1]: =1 1 0 1 2 2 1 2 r 127.0.0.1 j 0 3 False 1\n"));
  CHECK(run.err.empty());
}

TEST_CASE("OMP_NUM_THREADS splits the cores among the ranks unless the user sets it") {
  unsetenv("OMP_NUM_THREADS");
  const std::string share = std::to_string(std::max(1, core_room().cores / 2)) + "\n";
  CHECK_THAT(launch(shell({"--nproc-per-node=2"}, "echo $OMP_NUM_THREADS")).out,
             ContainsSubstring("[default0]: " + share));
  CHECK(launch(shell({}, "echo $OMP_NUM_THREADS"), {{"OMP_NUM_THREADS", "5"}}).out == "5\n");
}

TEST_CASE("as many ranks as GPUs are started; a lost GPU does not count, MIG devices count as one") {
  const auto ranks = [](const char* gpus, const char* visible, const char* wanted = "gpu") {
    std::vector<std::pair<std::string, std::string>> variables = {
        {"LD_LIBRARY_PATH", RONDO_BINARY_DIR "/tests/fake_driver"}, {"FAKE_GPUS", gpus}};
    if (visible != nullptr) variables.emplace_back("CUDA_VISIBLE_DEVICES", visible);
    const Finished run = launch(
        shell({std::string("--nproc-per-node=") + wanted, "--local-ranks-filter=0"}, "echo $WORLD_SIZE"),
        variables);
    return run.code == 0 ? run.out : run.err;
  };
  CHECK(ranks("wwww", nullptr) == "4\n");
  CHECK(ranks("wlww", nullptr) == "3\n");
  CHECK(ranks("wwww", "2,0") == "2\n");
  CHECK(ranks("ww", "0,1,2,3") == "2\n");
  CHECK(ranks("wwww", "3,-1,2") == "1\n");
  CHECK(ranks("wwww", "GPU-5ef0,GPU-17aa") == "2\n");
  CHECK(ranks("m", nullptr) == "1\n");
  CHECK(ranks("m", "MIG-5ef0,MIG-17aa", "auto") == "1\n");
  CHECK(ranks("wm", nullptr) == "1\n");
  CHECK_THAT(ranks("e", nullptr), ContainsSubstring("this machine has no visible GPU"));
  CHECK_THAT(ranks("ww", ""), ContainsSubstring("CUDA_VISIBLE_DEVICES names none"));
}

TEST_CASE("the rank that failed first is named though the clock was set back in between") {
  Scratch folder;
  const std::string jump = folder.path("jump");
  // Rank 1 is ready, rank 0 fails, and rank 1 fails later, an hour earlier by the clock.
  const Finished run =
      launch(shell({"--nproc-per-node=2"}, "if [ $RANK = 0 ]; then while ! test -e " + folder.path("ready") +
                                               "; do sleep 0.01; done; exit 5; fi; trap '> " + jump +
                                               "; exit 9' TERM; > " + folder.path("ready") +
                                               "; while :; do sleep 0.01; done"),
             {{"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libjumping_clock.so"},
              {"JUMPING_CLOCK_FROM", jump},
              {"JUMPING_CLOCK_S", "-3600"}});
  CHECK(std::filesystem::exists(jump));
  CHECK(run.code == 5);
  CHECK_THAT(run.err, ContainsSubstring("rank 0 ") && ContainsSubstring("ended with exit code 5"));
}

TEST_CASE("rank 0 alone inherits a socket bound to the master port on the loopback address") {
  // The local address of the socket, as the kernel lists it: 0100007F is 127.0.0.1.
  const Finished run = launch(shell({"--nproc-per-node=2"},
                                    "if [ $RANK = 1 ]; then test -z \"$RONDO_MASTER_LISTEN_FD\"; exit; fi; "
                                    "readlink /proc/self/fd/$RONDO_MASTER_LISTEN_FD; test -z \"$(grep -i "
                                    "\" 00000000:$(printf %04X $MASTER_PORT) .* 0A \" /proc/net/tcp)\""));
  CHECK(run.code == 0);
  CHECK_THAT(run.out, ContainsSubstring("socket:["));
}

TEST_CASE("the first failure gives the exit code, is reported, and ends the other ranks") {
  const Finished run =
      launch(shell({"--nproc-per-node=3"}, "if [ $RANK = 1 ]; then echo boom >&2; exit 4; fi; sleep 60"));
  CHECK(run.code == 4);
  CHECK_THAT(run.err, ContainsSubstring("[default1]: boom"));
  CHECK_THAT(run.err, ContainsSubstring("rank 1 (local rank 1, pid "));
  CHECK_THAT(run.err,
             ContainsSubstring("ended with exit code 4 (data or tokenizer); the other ranks were stopped"));
  CHECK_THAT(run.err, ContainsSubstring("its message: boom"));
}

TEST_CASE("a rank's error file is shown, and gives the cause although a peer died first") {
  Scratch folder;
  const Finished run = launch(
      shell({"--nproc-per-node=2"}, "if [ $RANK = 0 ]; then while [ ! -e " +
                                        folder.path("written ]; do sleep 0.01; done; exit 7; fi; ") +
                                        "echo '{\"message\":{\"message\":\"disk "
                                        "full\",\"errorCode\":9,\"extraInfo\":{\"timestamp\":\"1\"}}}' "
                                        "> $TORCHELASTIC_ERROR_FILE; touch " +
                                        folder.path("written; sleep 60")));
  CHECK(run.code == 9);
  CHECK_THAT(run.err, ContainsSubstring("rank 1 (local rank 1"));
  CHECK_THAT(run.err, ContainsSubstring("its message: disk full"));
}

TEST_CASE("a killed rank gives exit code 128 + signal and ends the other ranks") {
  Scratch folder;
  Launch run(shell({"--nproc-per-node=3"}, "echo $$ > " + folder.path("pid.$RANK.new; mv ") +
                                               folder.path("pid.$RANK.new ") +
                                               folder.path("pid.$RANK; exec sleep 60")));
  REQUIRE(holds_soon([&] {
    return !numbers_in(folder.path("pid.0")).empty() && !numbers_in(folder.path("pid.1")).empty() &&
           !numbers_in(folder.path("pid.2")).empty();
  }));
  kill(numbers_in(folder.path("pid.1"))[0], SIGKILL);
  const Finished end = run.wait();
  CHECK(end.code == 137);
  CHECK_THAT(end.err,
             ContainsSubstring("rank 1 (local rank 1") && ContainsSubstring("was killed by SIGKILL"));
  for (const char* name : {"pid.0", "pid.2"}) CHECK(is_gone(numbers_in(folder.path(name))[0]));
}

TEST_CASE("ranks that ignore SIGTERM are killed after the grace period") {
  const Finished run = launch(
      shell({"--nproc-per-node=2", "--shutdown-grace=0.2"},
            "if [ $RANK = 1 ]; then sleep 0.2; exit 5; fi; trap '' TERM; while :; do sleep 0.05; done"));
  CHECK(run.code == 5);
}

TEST_CASE("a rank that ignores a forwarded signal or is stopped is killed after the grace period") {
  for (const char* script :
       {"trap '' TERM; echo up; while :; do sleep 0.05; done", "echo up; kill -STOP $$; sleep 60"}) {
    Launch run(shell({"--nproc-per-node=2", "--shutdown-grace=0.3"}, script));
    REQUIRE(holds_soon([&] { return run.out().find("[default1]: up") != std::string::npos; }));
    run.signal(SIGTERM);
    const Finished end = run.wait();
    CHECK((end.code == 137 || end.code == 143));
  }
  Launch ignorer(shell({"--shutdown-grace=0.3"}, "trap '' TERM; echo up; while :; do sleep 0.05; done"));
  REQUIRE(holds_soon([&] { return !ignorer.out().empty(); }));
  ignorer.signal(SIGTERM);
  const Finished end = ignorer.wait();
  CHECK(end.code == 137);
  CHECK_THAT(end.err, ContainsSubstring("killing rank 0: it did not end within 0.3 s of the signal"));
}

TEST_CASE("no rank survives a killed launcher, nor do the children of ranks") {
  Scratch folder;
  Launch run(shell({"--nproc-per-node=2"},
                   "sleep 60 & echo $$ $! $(dirname $RONDO_RUN_FOLDER_FILE | tr -cd 0-9) > " +
                       folder.path("new.$RANK; dirname $RONDO_RUN_FOLDER_FILE > ") +
                       folder.path("private; mv ") + folder.path("new.$RANK ") +
                       folder.path("pids.$RANK; wait")));
  REQUIRE(holds_soon([&] {
    return numbers_in(folder.path("pids.0")).size() > 1 && numbers_in(folder.path("pids.1")).size() > 1;
  }));
  run.signal(SIGKILL);
  CHECK(run.wait().code == 137);
  for (const char* name : {"pids.0", "pids.1"}) {
    const auto pids = numbers_in(folder.path(name));
    CHECK(holds_soon([&] { return is_gone(pids[0]) && is_gone(pids[1]); }));
  }
  std::string private_folder = text_of(folder.path("private"));
  private_folder.pop_back();
  CHECK(holds_soon([&] { return !std::filesystem::exists(private_folder); }));
}

TEST_CASE("processes that a rank leaves behind end with it") {
  Scratch folder;
  CHECK(launch(shell({}, "sleep 60 & echo $! > " + folder.path("pid"))).code == 0);
  CHECK(holds_soon([&] { return is_gone(numbers_in(folder.path("pid"))[0]); }));
}

// Ranks that set a trap, print "ready" and wait.
std::vector<std::string> waiting_ranks(const std::string& trap) {
  return shell({"--nproc-per-node=2"}, trap + "; echo ready; while :; do sleep 0.02; done");
}

bool both_print(const Launch& run, const std::string& word) {
  return holds_soon([&] {
    const std::string out = run.out();
    return out.find("0]: " + word) != std::string::npos && out.find("1]: " + word) != std::string::npos;
  });
}

int code_after(int signal, const std::string& trap) {
  Launch run(waiting_ranks(trap));
  if (!both_print(run, "ready")) return -1;
  run.signal(signal);
  return run.wait().code;
}

TEST_CASE("signals reach all ranks, whose common exit code is the launcher's") {
  CHECK(code_after(SIGTERM, "trap 'exit 75' TERM") == 75);
  CHECK(code_after(SIGUSR1, "trap 'exit 0' USR1") == 0);
  CHECK(code_after(SIGTERM, ":") == 143);
  CHECK(code_after(SIGHUP, ":") == 129);
  CHECK(code_after(SIGTERM, "trap 'exit $((RANK * 7))' TERM") == 7);
}

TEST_CASE("a second SIGINT kills the ranks at once") {
  Launch run(waiting_ranks("trap 'echo caught' INT"));
  REQUIRE(both_print(run, "ready"));
  run.signal(SIGINT);
  REQUIRE(both_print(run, "caught"));
  run.signal(SIGINT);
  const Finished end = run.wait();
  CHECK(end.code == 130);
  CHECK_THAT(end.err, ContainsSubstring("interrupted twice: killing the ranks"));
}

TEST_CASE("ranks that request a requeue give 75 and are not restarted") {
  const Finished run = launch(shell({"--nproc-per-node=2", "--max-restarts=3"}, "echo once; exit 75"));
  CHECK(run.code == 75);
  CHECK(run.err.empty());
}

TEST_CASE("a failure restarts all ranks, as often as allowed") {
  const std::string script = "echo try $TORCHELASTIC_RESTART_COUNT; test $RANK = 1 && exit ";
  const Finished failed = launch(shell({"--nproc-per-node=2", "--max-restarts=2"}, script + "9; sleep 60"));
  CHECK(failed.code == 9);
  CHECK_THAT(failed.out,
             ContainsSubstring("[default1]: try 0\n") && ContainsSubstring("[default1]: try 2\n"));
  CHECK_THAT(failed.err, ContainsSubstring("restarting all ranks: restart 2 of 2"));
  const Finished restarted =
      launch(shell({"--nproc-per-node=2", "--max-restarts=2"}, "test $TORCHELASTIC_RESTART_COUNT = 1"));
  CHECK(restarted.code == 0);
}

TEST_CASE("user errors are not retried") {
  for (const int code : {2, 3, 4, 93}) {
    const Finished run = launch(shell({"--max-restarts=2"}, "echo once; exit " + std::to_string(code)));
    CHECK(run.code == code);
    CHECK(run.out == "once\n");
  }
}

TEST_CASE("streams go to files, to the console or to both, by local rank") {
  Scratch folder;
  const Finished run = launch(
      shell({"--nproc-per-node=3", "--rdzv-id=j", "--log-dir", folder.path(), "-r", "0:3", "-t", "1:1"},
            "echo out $RANK; echo err $RANK >&2"));
  CHECK(run.code == 0);
  const std::string logs = folder.path("j/attempt_0/");
  CHECK(text_of(logs + "0/stdout.log") == "out 0\n");
  CHECK(text_of(logs + "0/stderr.log") == "err 0\n");
  CHECK(text_of(logs + "1/stdout.log") == "out 1\n");
  CHECK_FALSE(std::filesystem::exists(logs + "1/stderr.log"));
  CHECK_THAT(run.out, !ContainsSubstring("out 0") && ContainsSubstring("[default1]: out 1\n") &&
                          ContainsSubstring("[default2]: out 2\n"));
  CHECK_THAT(run.err, !ContainsSubstring("err 0") && ContainsSubstring("[default1]: err 1\n"));
}

TEST_CASE("only the ranks of the filter reach the console, a single rank without a prefix") {
  Scratch folder;
  const std::string script = "echo out $RANK";
  CHECK(launch(shell({"--nproc-per-node=3", "--local-ranks-filter=1"}, script)).out == "out 1\n");
  const Finished run = launch(shell(
      {"--nproc-per-node=3", "--local-ranks-filter=0,1", "--rdzv-id=j", "--log-dir", folder.path()}, script));
  CHECK_THAT(run.out, ContainsSubstring("[default0]: out 0\n") && !ContainsSubstring("out 2"));
  CHECK(text_of(folder.path("j/attempt_0/2/stdout.log")) == "out 2\n");
}

TEST_CASE("a line of the log that begins with its rank gets no second one") {
  const Finished run = launch(shell({"--nproc-per-node=2"}, "echo \"[$RANK] step\"; echo \"[7] step\""));
  CHECK_THAT(run.out, ContainsSubstring("[default0]: [7] step\n") && !ContainsSubstring("[default0]: [0]"));
  CHECK_THAT(run.out, ContainsSubstring("[1] step\n") && !ContainsSubstring("[default1]: [1]"));
}

TEST_CASE("lines of different ranks are never mixed, and an unfinished line is shown") {
  const Finished run =
      launch(shell({"--nproc-per-node=2"},
                   "for i in 1 2 3 4 5 6 7 8 9; do printf abc; printf 'def\\n'; done; printf end"));
  std::istringstream lines(run.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK((line.substr(12) == "abcdef" || line.substr(12) == "end"));
  CHECK(count == 20);
}

TEST_CASE("the log of a failed rank is reported, and its last line shown") {
  Scratch folder;
  const Finished run =
      launch(shell({"--rdzv-id=j", "-r3", "--log-dir", folder.path()}, "echo reason >&2; echo >&2; exit 8"));
  CHECK(run.code == 8);
  CHECK_THAT(run.err, ContainsSubstring("its message: reason"));
  CHECK_THAT(run.err, ContainsSubstring("its log: " + folder.path("j/attempt_0/0/stderr.log")));
}

TEST_CASE("a log folder that cannot be written is refused") {
  const Finished run = launch(shell({"-r3", "--log-dir", "/proc/logs"}, ":"));
  CHECK(run.code == 6);
  CHECK_THAT(run.err, ContainsSubstring("cannot write into /proc/logs/none") &&
                          ContainsSubstring("choose another --log-dir"));
}

TEST_CASE("the logs of a running launcher are refused to a second launcher") {
  Scratch folder;
  const std::vector<std::string> args = shell({"--log-dir", folder.path(), "--tee=3"}, "echo up; sleep 60");
  Launch first(args);
  REQUIRE(holds_soon([&] { return first.out().find("up") != std::string::npos; }));
  const Finished second = launch(args);
  CHECK(second.code == 6);
  CHECK_THAT(second.err, ContainsSubstring("are being written by another launcher that is still alive"));
}

TEST_CASE("a failure to create temporary files is exit code 9") {
  const Finished run = launch(shell({}, ":"), {{"TMPDIR", "/proc"}});
  CHECK(run.code == 9);
  CHECK_THAT(run.err, ContainsSubstring("cannot create the folder /proc/rondo-launch-") &&
                          ContainsSubstring("set TMPDIR"));
}

TEST_CASE("a killed rank leaves an exit.json in the run folder that rank 0 reported") {
  Scratch folder;
  const Finished run = launch(shell(
      {"--nproc-per-node=2"}, "if [ $RANK = 0 ]; then echo run_folder=" + folder.path() +
                                  " > $RONDO_RUN_FOLDER_FILE; touch " + folder.path("named; sleep 60; fi; ") +
                                  "while [ ! -e " + folder.path("named ]; do sleep 0.01; done; kill -9 $$")));
  CHECK(run.code == 137);
  const auto end = nlohmann::json::parse(text_of(folder.path("exit.json")));
  CHECK(end["exit_code"] == 137);
  CHECK(end["signal"] == SIGKILL);
  CHECK(end["rank"] == 1);
  CHECK(end["by"] == "launcher");
}

TEST_CASE("a master port in use is exit code 6 with advice") {
  int failure = 0;
  const Listener taken = bind_to("127.0.0.1", 0, true, failure);
  REQUIRE(taken.fd);
  const std::string port = std::to_string(taken.port);
  const Finished run = launch(shell({"--master-port=" + port}, "echo started"));
  CHECK(run.code == 6);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, ContainsSubstring("port " + port + " of 127.0.0.1 is in use") &&
                          ContainsSubstring("choose another --master-port"));
}

TEST_CASE("a master address of another machine is exit code 6") {
  const Finished run = launch(shell({"--master-addr=192.0.2.1"}, "echo started"));
  CHECK(run.code == 6);
  CHECK_THAT(run.err, ContainsSubstring("--master-addr must be an address of the node of rank 0"));
}

TEST_CASE("a program that cannot be started is exit code 6") {
  Finished run = launch({"--no-python", "no-such-program"});
  CHECK(run.code == 6);
  CHECK_THAT(run.err, ContainsSubstring("cannot start no-such-program: no such program in PATH"));
  run = launch({"--no-python", "/etc/passwd"});
  CHECK(run.code == 6);
  CHECK_THAT(run.err, ContainsSubstring("cannot start /etc/passwd: Permission denied"));
}

TEST_CASE("an unknown flag is exit code 2 before any rank starts") {
  const Finished run = launch({"--nproc-per-nod=2", "--", "train"});
  CHECK(run.code == 2);
  CHECK_THAT(run.err, ContainsSubstring("did you mean --nproc-per-node?"));
}

TEST_CASE("the help lists every flag that is served") {
  const Finished run = launch({"--help"});
  CHECK(run.code == 0);
  for (const char* flag :
       {"--nproc-per-node", "--nnodes", "--rdzv-endpoint", "-r, --redirects", "--shutdown-grace"})
    CHECK_THAT(run.out, ContainsSubstring(flag));
}

TEST_CASE("a subcommand is run by the rondo in the launcher's folder") {
  const Finished run = launch({"--nproc-per-node=2", "--", "--version"});
  CHECK(run.code == 0);
  CHECK_THAT(run.out, ContainsSubstring("[default1]: rondo "));
}

}  // namespace
}  // namespace rondo::launch

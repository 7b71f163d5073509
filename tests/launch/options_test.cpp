#include "launch/options.h"

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>

#include "support/error.h"
#include "support/machine/core_room.h"

namespace rondo::launch {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string refusal(const std::vector<std::string>& words, ExitCode code = ExitCode::usage) {
  try {
    parse_options(words);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

TEST_CASE("flags are read with dashes or underscores, with = or a space") {
  for (const auto& words : std::vector<std::vector<std::string>>{{"--nproc-per-node", "4", "--", "train"},
                                                                 {"--nproc_per_node=4", "train"},
                                                                 {"--nproc-per-node=4", "train"}}) {
    const LaunchOptions options = parse_options(words);
    CHECK(options.ranks_per_node == 4);
    CHECK(options.program == std::vector<std::string>{"train"});
  }
}

TEST_CASE("flags end at the program, whose own flags are kept") {
  const auto options = parse_options({"--standalone", "--no-python", "./prog", "--nnodes", "x", "--"});
  CHECK(options.runs_any_program);
  CHECK(options.program == std::vector<std::string>{"./prog", "--nnodes", "x", "--"});
}

TEST_CASE("a static job of several nodes has its rendezvous at the master address and port") {
  const auto options =
      parse_options({"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--", "train"});
  CHECK(options.rendezvous.host == "10.0.0.1");
  CHECK(options.rendezvous.port == 29500);
  CHECK(options.master_port == 29500);
  CHECK(options.node_rank == 1);
}

TEST_CASE("a c10d endpoint has torchrun's default port, and may be an IPv6 address") {
  const std::vector<std::string> start = {"--nnodes", "2:2", "--rdzv_backend", "c10d", "--rdzv_endpoint"};
  const auto parse = [&](const std::string& endpoint) {
    auto words = start;
    words.insert(words.end(), {endpoint, "train"});
    return parse_options(words).rendezvous;
  };
  CHECK(parse("head").host == "head");
  CHECK(parse("head").port == 29400);
  CHECK(parse("head:123").port == 123);
  CHECK(parse("[::1]:123").host == "[::1]");
  CHECK(parse("[::1]:123").port == 123);
  CHECK(parse("[::1]").port == 29400);
  CHECK(parse("::1").host == "::1");
}

TEST_CASE("rendezvous settings set the timeouts") {
  const auto options = parse_options({"--rdzv-conf", "timeout=7,join_timeout=8.5,read_timeout=9", "train"});
  CHECK(options.join_timeout_s == 8.5);
  CHECK(options.silence_timeout_s == 9);
}

TEST_CASE("stream masks apply to all ranks or by local rank") {
  const auto options = parse_options({"--nproc-per-node=2", "-r3", "-t", "0:1,1:2", "train"});
  CHECK(options.redirects.of(5) == 3);
  CHECK(options.tee.of(0) == 1);
  CHECK(options.tee.of(1) == 2);
  CHECK(options.tee.of(2) == 0);
}

TEST_CASE("environment variables set flags that are not given") {
  setenv("PET_NPROC_PER_NODE", "3", 1);
  setenv("PET_STANDALONE", "1", 1);
  CHECK(parse_options({"train"}).ranks_per_node == 3);
  CHECK(parse_options({"--nproc-per-node", "2", "train"}).ranks_per_node == 2);
  setenv("PET_STANDALONE", "perhaps", 1);
  setenv("PET_NPROC_PER_NODE", "none", 1);
  const std::string message = refusal({"train"});
  CHECK_THAT(message, ContainsSubstring("PET_STANDALONE \"perhaps\" must be 0 or 1"));
  CHECK_THAT(message, ContainsSubstring("PET_NPROC_PER_NODE \"none\" must be 1 to 1024, auto, cpu or gpu"));
  unsetenv("PET_STANDALONE");
  unsetenv("PET_NPROC_PER_NODE");
}

TEST_CASE("all six signals are forwarded unless some are named") {
  CHECK(parse_options({"train"}).signals.size() == 6);
  CHECK(parse_options({"--signals-to-handle", "SIGTERM,SIGUSR1", "train"}).signals ==
        std::vector{SIGTERM, SIGUSR1});
}

TEST_CASE("--nproc-per-node cpu takes the cores of this process, and gpu requires a GPU") {
  CHECK(parse_options({"--nproc-per-node=cpu", "train"}).ranks_per_node == core_room().cores);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(parse_options({"--nproc-per-node=auto", "train"}).ranks_per_node == core_room().cores);
  CHECK_THAT(refusal({"--nproc-per-node=gpu", "train"}, ExitCode::environment),
             ContainsSubstring("has no visible GPU"));
  setenv("CUDA_VISIBLE_DEVICES", "0,3", 1);
  CHECK(parse_options({"--nproc-per-node=gpu", "train"}).ranks_per_node == 2);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_CASE("all mistakes of a command line are reported at once") {
  const std::string message = refusal({"--nproc-per-nod=2", "--master-port=70000", "-t", "4", "train"});
  CHECK_THAT(message, ContainsSubstring("unknown flag --nproc-per-nod (did you mean --nproc-per-node?)"));
  CHECK_THAT(message, ContainsSubstring("--master-port \"70000\" must be a whole number from 0 to 65535"));
  CHECK_THAT(message, ContainsSubstring("-t \"4\" must be 0, 1 (stdout), 2 (stderr) or 3 (both)"));
}

TEST_CASE("unsupported flags and values are refused with the reason") {
  struct Case {
    std::vector<std::string> words;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{"--nnodes=1:4", "train"}, "--nnodes \"1:4\" requests an elastic job, which is not supported"},
      {{"--nnodes=0", "train"}, "must be a whole number from 1 to 10000"},
      {{"--nnodes=a:b", "train"}, "must be a whole number from 1 to 10000"},
      {{"--nproc-per-node=0", "train"}, "must be 1 to 1024, auto, cpu or gpu"},
      {{"--virtual-local-rank", "train"}, "--virtual-local-rank is not supported"},
      {{"-m", "train"}, "-m is not supported: Rondo runs no Python"},
      {{"--numa-binding=node", "train"}, "--numa-binding is not supported"},
      {{"--standalone=1", "train"}, "--standalone takes no value"},
      {{"--standalone", "--nnodes=2", "train"}, "--standalone is for one node, but --nnodes \"2\""},
      {{"--nproc-per-node"}, "--nproc-per-node needs a value"},
      {{"--nproc-per-node", "--", "train"}, "--nproc-per-node needs a value"},
      {{"--nnodes=2", "train"}, "several nodes need a rendezvous endpoint: give --master-addr"},
      {{"--nnodes=2", "--rdzv-backend=c10d", "train"}, "give --rdzv-endpoint HOST:PORT"},
      {{"--node-rank=1", "train"}, "--node-rank \"1\" must be below the number of nodes, 1"},
      {{"--rdzv-backend=etcd", "train"}, "must be static or c10d"},
      {{"--rdzv-endpoint=h:x", "train"}, "must be HOST or HOST:PORT"},
      {{"--rdzv-endpoint=:1", "train"}, "must be HOST or HOST:PORT"},
      {{"--rdzv-id=../x", "train"}, "must be 1 to 128 letters, digits"},
      {{"--rdzv-conf=store=1", "train"}, "has \"store=1\"; allowed are timeout=S"},
      {{"--rdzv-conf=read_timeout=1", "train"}, "has read_timeout \"1\", which must be seconds from 2"},
      {{"--monitor-interval=nan", "train"}, "must be seconds from 0.001"},
      {{"--max-restarts=-1", "train"}, "must be a whole number from 0"},
      {{"--local-ranks-filter=1", "train"}, "has 1, but local ranks here are 0 to 0"},
      {{"--local-ranks-filter=a", "train"}, "must be local ranks such as 0,1"},
      {{"--tee=3:1", "train"}, "has 3, but local ranks here are 0 to 0"},
      {{"--role=a b", "train"}, "must be 1 to 128 letters, digits"},
      {{"--log-dir=", "train"}, "--log-dir \"\" must not be empty"},
      {{"--master-addr=", "train"}, "must be 1 to 255 characters without spaces"},
      {{"--signals-to-handle=SIGKILL", "train"}, "must list some of SIGTERM"},
      {{}, "no program: write `rondo launch FLAGS -- train ...`"},
      {{"train.py"}, "train.py is a Python script, and Rondo runs no Python"},
      {{"train", "--nproc_per_node=2"},
       "--nproc_per_node=2 is a flag of the launcher: write it before `train`"},
  };
  for (const Case& refused : cases) CHECK_THAT(refusal(refused.words), ContainsSubstring(refused.message));
}

TEST_CASE("--help counts before the program, not after it") {
  CHECK(parse_options({"--help"}).wants_help);
  CHECK_FALSE(parse_options({"train", "--help"}).wants_help);
}

}  // namespace
}  // namespace rondo::launch

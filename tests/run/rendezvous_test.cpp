// Tests the rendezvous of ranks without the launcher, and the message of each rank if it fails.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <future>

#include "tests/run/held_port.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

int free_port() { return HeldPort().number(); }

// Runs `rondo ...` in the environment that torchrun sets for this rank.
ProgramResult as_rank(int rank, int ranks, const std::string& address, int port, const Words& words) {
  return run_program(
      Words{"/usr/bin/env", fmt::format("RANK={}", rank), fmt::format("LOCAL_RANK={}", rank),
            fmt::format("WORLD_SIZE={}", ranks), fmt::format("LOCAL_WORLD_SIZE={}", ranks),
            "MASTER_ADDR=" + address, fmt::format("MASTER_PORT={}", port), "OMP_NUM_THREADS=1", kRondo} +
          words,
      kRunTimeout_ms);
}

TEST_CASE("ranks started with torchrun's variables have the bits of launched ranks") {
  const Place place;
  const Words flags = {"--training.steps=5"};
  const int port = free_port();
  std::vector<std::future<ProgramResult>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      return as_rank(rank, 2, "127.0.0.1", port, place.train("by variables", flags));
    }));
  for (auto& rank : ranks) {
    const ProgramResult run = rank.get();
    INFO(run.output);
    CHECK(run.exit_code == 0);
  }
  const ProgramResult launched =
      run_program(Words{"/usr/bin/env", "OMP_NUM_THREADS=1", kRondo} + place.launch(2, "launched", flags),
                  kRunTimeout_ms);
  CHECK(launched.exit_code == 0);
  const ProgramResult compared = place.compare("by variables", "launched");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

TEST_CASE(
    "ranks that do not all find a finished run's checkpoints all end with 5, and name both hosts and "
    "folders") {
  const Place place;
  const Words saving = {"--training.steps=2", "--checkpoint.enable=true", "--checkpoint.interval=2"};
  place.play(2, "run", saving);
  const bool writer_is_blind = GENERATE(false, true);
  const int port = free_port();
  std::vector<std::future<ProgramResult>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      const bool is_blind = (rank == 0) == writer_is_blind;
      return as_rank(rank, 2, "127.0.0.1", port, place.train(is_blind ? "not mounted" : "run", saving));
    }));
  for (auto& rank : ranks) {
    const ProgramResult run = rank.get();
    INFO(run.output);
    CHECK(run.exit_code == 5);
    CHECK_THAT(run.output,
               ContainsSubstring(fmt::format("rank {} on ", writer_is_blind ? 1 : 0)) &&
                   ContainsSubstring("/run/checkpoint that all are done, and rank ") &&
                   ContainsSubstring("/not mounted/checkpoint that they are not. Mount the folder"));
  }
}

TEST_CASE("one rank alone needs no launcher") {
  const Place place;
  const ProgramResult run = rondo(place.train("alone", {"--training.steps=2"}));
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK(place.metrics("alone").size() == 2);
  CHECK(place.exit_record("alone")["reason"] == "finished");
}

TEST_CASE("a port in use ends with 6 and is named") {
  const Place place;
  const HeldPort held;
  const ProgramResult rank = as_rank(0, 2, "127.0.0.1", held.number(), place.train("run"));
  INFO(rank.output);
  CHECK(rank.exit_code == 6);
  CHECK_THAT(rank.output, ContainsSubstring(fmt::format(
                              "cannot listen on MASTER_ADDR:MASTER_PORT = 127.0.0.1:{}: Address already "
                              "in use; choose another MASTER_PORT",
                              held.number())));
  const ProgramResult node = rondo(Words{"launch", "--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1",
                                         fmt::format("--master-port={}", held.number()), "--"} +
                                   place.train("run"));
  INFO(node.output);
  CHECK(node.exit_code == 6);
  CHECK_THAT(node.output, ContainsSubstring(fmt::format("port {} of 127.0.0.1 is in use", held.number())));
}

TEST_CASE("peers that never come end the wait with 7, and the key of the timeout is named") {
  const Place place;
  for (const int rank : {0, 1}) {
    const int port = free_port();
    const ProgramResult run =
        as_rank(rank, 2, "127.0.0.1", port, place.train("run", {"--comm.init_timeout_seconds=2"}));
    INFO(run.output);
    CHECK(run.exit_code == 7);
    CHECK_THAT(
        run.output,
        ContainsSubstring(fmt::format("rank {} could not rendezvous with the other", rank)) &&
            ContainsSubstring(fmt::format("at 127.0.0.1:{} within 2 s (comm.init_timeout_seconds)", port)));
  }
}

// Starts two ranks that agree only on the address of the rendezvous.
void check_refused(const Words& flags_of_1, const std::string& difference) {
  const Place place;
  for (int i = 0; i < 40; ++i)
    write_text(place / "corpus of 1" / fmt::format("{}.txt", i),
               std::string(200, static_cast<char>('a' + i % 26)));
  const int port = free_port();
  std::vector<std::future<ProgramResult>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      Words flags = rank == 0 ? Words{} : flags_of_1;
      for (std::string& flag : flags)
        if (flag == "--training.dataset_path=") flag += (place / "corpus of 1").string();
      return as_rank(
          rank, 2, "127.0.0.1", port,
          place.train("apart", Words{"--training.seq_len=16", "--comm.init_timeout_seconds=60"} + flags));
    }));
  for (auto& rank : ranks) {
    const ProgramResult run = rank.get();
    INFO(run.output);
    CHECK(run.exit_code == 3);
    CHECK_THAT(run.output, ContainsSubstring("ranks were started with different settings: ") &&
                               ContainsSubstring(difference));
  }
}

TEST_CASE("ranks with different settings, collectives or data never train together") {
  check_refused(
      {"--optimizer.lr=0.08", "--debug.seed=43"},
      "debug.seed is 42 on rank 0 and 43 on rank 1; optimizer.lr is 0.002 on rank 0 and 0.08 on rank "
      "1. Start all ranks with the same configuration, data and program");
  check_refused({"--parallelism.fsdp_reshard_after_forward=always"},
                "parallelism.fsdp_reshard_after_forward is \"default\" on rank 0 and \"always\" on rank 1");
  check_refused({"--training.dataset_path="}, "data (documents and tokenizer) is ");
  check_refused({"--checkpoint.enable=true"}, "checkpoint folder is not set on rank 0 and /");
}

TEST_CASE("an invalid environment ends with 6 and lists what is missing or wrong") {
  const Place place;
  const ProgramResult half =
      run_program(Words{"/usr/bin/env", "RANK=0", kRondo} + place.train("run"), kRunTimeout_ms);
  CHECK(half.exit_code == 6);
  CHECK_THAT(half.output,
             ContainsSubstring("missing WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"));
  const ProgramResult outside = as_rank(2, 2, "127.0.0.1", 1, place.train("run"));
  CHECK(outside.exit_code == 6);
  CHECK_THAT(outside.output, ContainsSubstring("RANK must be below WORLD_SIZE"));
  const ProgramResult nowhere = as_rank(0, 2, "no.such.host.invalid", 29500, place.train("run"));
  CHECK(nowhere.exit_code == 6);
  CHECK_THAT(nowhere.output, ContainsSubstring("MASTER_ADDR = no.such.host.invalid cannot be resolved"));
  const ProgramResult foreign =
      as_rank(0, 2, "192.0.2.1", 29500, place.train("run"));  // RFC 5737: reserved for documentation
  CHECK(foreign.exit_code == 6);
  CHECK_THAT(foreign.output, ContainsSubstring("cannot listen on MASTER_ADDR:MASTER_PORT = 192.0.2.1:29500"));
}

TEST_CASE("a rank that fails before the rendezvous does not leave its peers waiting") {
  const Place place;
  // Only rank 0 creates the run folder; rank 1 continues to the rendezvous.
  const ProgramResult run = rondo(place.launch(2, "corpus/00.txt"));
  INFO(run.output);
  CHECK(run.exit_code == 6);
  CHECK_THAT(run.output, ContainsSubstring("is a file, not a folder") && !ContainsSubstring("frame #"));
}

}  // namespace
}  // namespace rondo

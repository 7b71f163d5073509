#include "launch/rendezvous/environment.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <fstream>
#include <random>

#include "launch/rendezvous/hostlist.h"
#include "support/error.h"
#include "support/files/temporary_folder.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Names = std::vector<std::string>;

void set(const std::vector<std::pair<const char*, const char*>>& variables) {
  clearenv();
  for (const auto& [name, value] : variables) setenv(name, value, 1);
}

std::string refusal() {
  try {
    rank_environment();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::environment);
    return error.what();
  }
  return "no error";
}

TEST_CASE("without a launcher a process is rank 0 of 1") {
  set({});
  const RankEnvironment ranks = rank_environment();
  CHECK(ranks.source == "alone");
  CHECK(ranks.rank == 0);
  CHECK(ranks.world_size == 1);
  CHECK(ranks.master_listen_fd == -1);
}

TEST_CASE("torchrun's variables are read") {
  set({{"RANK", "5"},
       {"WORLD_SIZE", "8"},
       {"LOCAL_RANK", "1"},
       {"LOCAL_WORLD_SIZE", "4"},
       {"GROUP_RANK", "1"},
       {"MASTER_ADDR", "h"},
       {"MASTER_PORT", "29500"},
       {"TORCHELASTIC_RUN_ID", "j"},
       {"TORCHELASTIC_RESTART_COUNT", "2"},
       {"RONDO_MASTER_LISTEN_FD", "999"}});
  const RankEnvironment ranks = rank_environment();
  CHECK(ranks.source == "torchrun");
  CHECK(ranks.rank == 5);
  CHECK(ranks.world_size == 8);
  CHECK(ranks.local_rank == 1);
  CHECK(ranks.local_world_size == 4);
  CHECK(ranks.group_rank == 1);
  CHECK(ranks.master_addr == "h");
  CHECK(ranks.master_port == 29500);
  CHECK(ranks.run_id == "j");
  CHECK(ranks.restart_count == 2);
  CHECK(ranks.master_listen_fd == -1);  // only rank 0 listens
}

TEST_CASE("torchrun's variables are refused if some are missing, no numbers, or contradict each other") {
  set({{"RANK", "1"}, {"WORLD_SIZE", "x"}});
  CHECK_THAT(refusal(),
             ContainsSubstring("WORLD_SIZE must be a whole number") &&
                 ContainsSubstring("missing LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT") &&
                 ContainsSubstring("set are RANK=1 WORLD_SIZE=x"));
  set({{"RANK", "2"},
       {"WORLD_SIZE", "2"},
       {"LOCAL_RANK", "0"},
       {"LOCAL_WORLD_SIZE", "1"},
       {"MASTER_ADDR", "h"},
       {"MASTER_PORT", "1"}});
  CHECK_THAT(refusal(), ContainsSubstring("RANK must be below WORLD_SIZE"));
  setenv("RANK", "0", 1);
  setenv("RONDO_MASTER_LISTEN_FD", "9999", 1);
  CHECK_THAT(refusal(), ContainsSubstring("RONDO_MASTER_LISTEN_FD must be an open file descriptor"));
  set({{"WORLD_SIZE", "2"}});
  CHECK_THAT(refusal(), ContainsSubstring("missing RANK"));
}

const std::vector<std::pair<const char*, const char*>> kSlurmTask = {{"SLURM_STEP_ID", "0"},
                                                                     {"SLURM_PROCID", "3"},
                                                                     {"SLURM_NTASKS", "4"},
                                                                     {"SLURM_LOCALID", "0"},
                                                                     {"SLURM_NODEID", "2"},
                                                                     {"SLURM_JOB_ID", "20007"},
                                                                     {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"},
                                                                     {"SLURM_STEP_NODELIST", "n[08-09],m3"}};

TEST_CASE("a task of a Slurm step has the rank of its variables") {
  set(kSlurmTask);
  setenv("SLURM_RESTART_COUNT", "1", 1);
  const RankEnvironment ranks = rank_environment();
  CHECK(ranks.source == "slurm");
  CHECK(ranks.rank == 3);
  CHECK(ranks.world_size == 4);
  CHECK(ranks.local_world_size == 1);
  CHECK(ranks.group_rank == 2);
  CHECK(ranks.master_addr == "n08");
  CHECK(ranks.master_port == 10007);
  CHECK(ranks.run_id == "20007.0");
  CHECK(ranks.restart_count == 1);
  setenv("MASTER_ADDR", "ib0", 1);
  setenv("MASTER_PORT", "5", 1);
  CHECK(rank_environment().master_addr == "ib0");
  CHECK(rank_environment().master_port == 5);
}

TEST_CASE("processes in a batch script and in the shell of salloc run alone") {
  for (const char* step : {"batch", "4294967291", "4294967290", "-5"}) {
    set(kSlurmTask);
    setenv("SLURM_STEP_ID", step, 1);
    CHECK(rank_environment().source == "alone");
  }
  set(kSlurmTask);
  unsetenv("SLURM_STEP_ID");
  CHECK(rank_environment().world_size == 1);
}

TEST_CASE("a Slurm step whose variables contradict each other is refused") {
  set(kSlurmTask);
  setenv("SLURM_NTASKS", "5", 1);
  CHECK_THAT(refusal(), ContainsSubstring("adds up to 4 tasks"));
  set(kSlurmTask);
  setenv("SLURM_NODEID", "3", 1);
  CHECK_THAT(refusal(), ContainsSubstring("SLURM_NODEID must be below"));
  set(kSlurmTask);
  setenv("SLURM_STEP_NODELIST", "n[1-", 1);
  CHECK_THAT(refusal(), ContainsSubstring("is not a Slurm list"));
  set(kSlurmTask);
  unsetenv("SLURM_STEP_NODELIST");
  CHECK_THAT(refusal(), ContainsSubstring("missing SLURM_STEP_NODELIST"));
}

TEST_CASE("Open MPI's variables take precedence over those of the step that started its daemons") {
  set(kSlurmTask);
  setenv("SLURM_STEP_TASKS_PER_NODE", "1(x4)", 1);  // a daemon per node
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  CHECK_THAT(refusal(), ContainsSubstring("missing OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK"));
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  const RankEnvironment ranks = rank_environment();
  CHECK(ranks.source == "openmpi");
  CHECK(ranks.rank == 1);
  CHECK(ranks.master_addr == "127.0.0.1");
  CHECK(ranks.master_port == 29500);
}

TEST_CASE("steps of one Slurm job have names and ports of their own") {
  set(kSlurmTask);
  const RankEnvironment first = rank_environment();
  setenv("SLURM_STEP_ID", "1", 1);
  const RankEnvironment second = rank_environment();
  CHECK(second.run_id == "20007.1");
  CHECK(second.master_port != first.master_port);
}

TEST_CASE("rank 0 of an arbitrary distribution is on the first host of SLURM_HOSTFILE") {
  const std::string file = make_temporary_folder("hosts") + "/hosts";
  std::ofstream(file) << "# rank 0\n\nm3*2 # two tasks\nn08\n";
  set(kSlurmTask);
  setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
  CHECK_THAT(refusal(), ContainsSubstring("SLURM_HOSTFILE") && ContainsSubstring("set MASTER_ADDR"));
  setenv("SLURM_HOSTFILE", file.c_str(), 1);
  CHECK(rank_environment().master_addr == "m3");
  setenv("MASTER_ADDR", "ib0", 1);
  CHECK(rank_environment().master_addr == "ib0");
}

TEST_CASE("rank 0 that is not where the other ranks look for it is refused") {
  set(kSlurmTask);
  setenv("SLURM_PROCID", "0", 1);
  CHECK_THAT(refusal(), ContainsSubstring("rank 0 is on m3 (SLURM_NODEID=2)") &&
                            ContainsSubstring("look for it on n08: set MASTER_ADDR=m3"));
  setenv("MASTER_ADDR", "m3", 1);
  CHECK(rank_environment().master_addr == "m3");
}

void add_torchrun(const char* rank, const char* size, const char* local_size) {
  setenv("RANK", rank, 1);
  setenv("WORLD_SIZE", size, 1);
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", local_size, 1);
  setenv("MASTER_ADDR", "h", 1);
  setenv("MASTER_PORT", "1", 1);
}

TEST_CASE("torchrun's variables that contradict a Slurm step's are refused with the values of both") {
  set(kSlurmTask);
  add_torchrun("0", "4", "1");
  CHECK_THAT(refusal(), ContainsSubstring("RANK=0 and WORLD_SIZE=4 contradict SLURM_PROCID=3 and "
                                          "SLURM_NTASKS=4") &&
                            ContainsSubstring("Unset RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE"));
  add_torchrun("0", "1", "1");  // each task would train alone
  CHECK_THAT(refusal(), ContainsSubstring("WORLD_SIZE=1 contradict"));
  add_torchrun("3", "4", "1");
  CHECK(rank_environment().rank == 3);
  add_torchrun("7", "8", "2");  // each task starts two ranks
  CHECK(rank_environment().rank == 7);
  add_torchrun("0", "1", "1");
  setenv("TORCHELASTIC_RUN_ID", "j", 1);  // each task is a launcher
  CHECK(rank_environment().world_size == 1);
  unsetenv("TORCHELASTIC_RUN_ID");
  setenv("SLURM_PTY_PORT", "5", 1);  // from a terminal in the step
  CHECK(rank_environment().world_size == 1);
}

TEST_CASE("torchrun's variables that contradict mpirun's are refused") {
  set({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  add_torchrun("0", "2", "2");
  CHECK_THAT(refusal(), ContainsSubstring("contradict OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=2"));
  add_torchrun("1", "2", "1");
  CHECK(rank_environment().rank == 1);
  set({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  add_torchrun("0", "2", "2");
  CHECK_THAT(refusal(), ContainsSubstring("contradict PMI_RANK=1 and PMI_SIZE=2"));
}

TEST_CASE("mpirun's variables that are left over in a Slurm step are refused") {
  set(kSlurmTask);  // two tasks on its first node: no daemons
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
  CHECK_THAT(refusal(), ContainsSubstring("OMPI_COMM_WORLD_RANK=0 and OMPI_COMM_WORLD_SIZE=1 contradict "
                                          "SLURM_PROCID=3 and SLURM_NTASKS=4"));
  setenv("SLURM_STEP_TASKS_PER_NODE", "1(x4)", 1);
  CHECK_THAT(refusal(), ContainsSubstring("contradict"));
}

TEST_CASE("mpirun on several nodes requires a master address and port") {
  set({{"OMPI_COMM_WORLD_RANK", "2"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK_THAT(refusal(), ContainsSubstring("missing MASTER_ADDR MASTER_PORT"));
  setenv("MASTER_ADDR", "h", 1);
  setenv("MASTER_PORT", "7", 1);
  CHECK(rank_environment().group_rank == 1);
}

TEST_CASE("Hydra's ranks are recognized, and a lone PMI rank is refused") {
  set({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  CHECK(rank_environment().source == "hydra");
  CHECK(rank_environment().rank == 1);
  set({{"PMIX_RANK", "1"}});
  CHECK_THAT(refusal(), ContainsSubstring("PMIX_RANK=1 is set by a launcher of several ranks"));
}

TEST_CASE("host lists expand in order and keep widths") {
  CHECK(expand_hostlist("n[0-1,07],m3") == Names{"n0", "n1", "n07", "m3"});
  CHECK(expand_hostlist("n[08-11]") == Names{"n08", "n09", "n10", "n11"});
  CHECK(expand_hostlist("r[1-2]n[1-2]-x") == Names{"r1n1-x", "r1n2-x", "r2n1-x", "r2n2-x"});
  CHECK(expand_hostlist("gpu-1.example.org") == Names{"gpu-1.example.org"});
  CHECK(expand_counts("2(x3),1") == std::vector{2, 2, 2, 1});
}

TEST_CASE("malformed lists are refused") {
  for (const char* text : {"", ",", "a,", "n[", "n[]", "n[1", "n[2-1]", "n[1-]", "n[a]", "n]", "a b",
                           "n[0-99999999]", "n[0-999][0-999]", "n[1[2]]"})
    CHECK_THROWS_AS(expand_hostlist(text), Error);
  for (const char* text :
       {"", "0", "1(", "1(x", "1(x2", "1(y2)", "1(x99999999)", "1,", "-1", "1(x60000),1(x60000)"})
    CHECK_THROWS_AS(expand_counts(text), Error);
}

TEST_CASE("random lists never crash, and their size is bounded") {
  std::mt19937 random(7);
  const std::string letters = "n0189[]-,(x).";
  std::size_t most = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (unsigned length = random() % 24; length > 0; --length) text += letters[random() % letters.size()];
    try {
      most = std::max(most, expand_hostlist(text).size());
    } catch (const Error&) {
    }
    try {
      most = std::max(most, expand_counts(text).size());
    } catch (const Error&) {
    }
  }
  CHECK(most > 1);
  CHECK(most <= 65536);
}

}  // namespace
}  // namespace rondo

// Every subcommand in every odd place: closed streams, full devices, limits, empty and strange
// environments. It ends, in time, with a code that docs/errors.md has, and never by a signal. By
// families: CLI (streams), RES (limits), CFG (environment and words).
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/run/runs.h"

namespace rondo {
namespace {

const Words kCommands = {"",
                         "--version",
                         "help training.steps",
                         "help --man",
                         "completion bash",
                         "config check configs/llama3_debug.toml",
                         "config resolve configs/llama3_debug.toml",
                         "config check tests/attack/corpus/config/include/b.toml",
                         "checkpoint ls tests/attack/corpus/checkpoint",
                         "checkpoint verify tests/attack/corpus/checkpoint/step-3",
                         "checkpoint show tests/attack/corpus/checkpoint/step-3",
                         "data inspect tests/attack/corpus/tokens/rondo/a.tokens",
                         "data inspect tests/attack/corpus/documents/lines.jsonl*",
                         "opt --verify-only tests/attack/corpus/documents/plain.txt",
                         "opt --list",
                         "compare tests/attack/corpus/run_folder/run tests/attack/corpus/run_folder/run",
                         "report --text tests/attack/corpus/run_folder/run",
                         "top tests/attack/corpus/run_folder/run",
                         "doctor",
                         "launch --no-python /bin/true",
                         "launch --nproc-per-node 2 --no-python /bin/sh -c 'echo $RANK'"};

// `before` and `after` stand around the command in a line of the shell.
void check_everywhere(const std::string& before, const std::string& after = "") {
  for (const std::string& command : kCommands) {
    const std::string line =
        "cd " RONDO_SOURCE_DIR "; " + before + " " + kRondo + " " + command + " " + after;
    INFO(line);
    const ProgramResult end = run_program({"/bin/sh", "-c", line}, 60'000);
    INFO(end.output);
    CHECK_FALSE(end.timed_out);
    CHECK(end.exit_code <= 10);
    CHECK(end.exit_code != 1);
    CHECK(end.output.find("internal error") == std::string::npos);
  }
}

TEST_CASE("closed streams and full devices end no subcommand by a signal") {
  for (const char* streams :
       {"<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>&1"})
    check_everywhere("", streams);  // 9 where it has results, 0 where it has none
}

TEST_CASE("results that the standard output does not take end a subcommand with 9") {
  for (const char* command : {"--version", "help --man", "opt --list", "completion bash",
                              "config resolve configs/llama3_debug.toml"}) {
    const ProgramResult end = run_program(
        {"/bin/sh", "-c", "cd " RONDO_SOURCE_DIR "; " + kRondo + " " + command + " >/dev/full"}, 60'000);
    INFO(command << ": " << end.output);
    CHECK(end.exit_code == 9);
    CHECK(end.output.find("standard output is incomplete") != std::string::npos);
  }
}

TEST_CASE("limits end no subcommand by a signal") {
  for (const char* limit : {"ulimit -n 16;", "ulimit -n 6;", "ulimit -f 0;", "ulimit -c 0; ulimit -s 512;"})
    check_everywhere(limit);
}

TEST_CASE("empty and strange environments end no subcommand by a signal") {
  for (const char* variables :
       {"env -i", "HOME= TMPDIR= PATH=", "LC_ALL=xx_YY.nowhere LANG=x",
        "TERM= COLUMNS=99999999999999999999 LINES=-1", "RANK=x WORLD_SIZE=-1 MASTER_PORT=99999999",
        "SLURM_JOB_ID=x SLURM_PROCID=y SLURM_NTASKS=z", "PET_NNODES=x PET_NPROC_PER_NODE=-1",
        "OMP_NUM_THREADS=99999999999 MALLOC_ARENA_MAX=x"})
    check_everywhere(variables);
}

}  // namespace
}  // namespace rondo

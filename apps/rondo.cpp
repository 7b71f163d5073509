// `rondo SUBCOMMAND ...`: links no LibTorch and starts in milliseconds. What needs LibTorch it hands to
// `rondo-worker`, the other executable in the same folder, by exec.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>

#include "apps/commands.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&);                // nullptr: rondo-worker does it,
  bool (*before)(const Arguments&) = nullptr;  // after this, unless it returns false: all is done
};

constexpr std::array kCommands = {
    Command{"train", "train a model as one rank (alone, or started by launch, srun, mpirun or torchrun)",
            nullptr, before_train},
    Command{"launch", "run the ranks of a job on this node, with torchrun's flags", run_launch},
    Command{"plan", "memory, communication and speed of a job of any size, before it runs", nullptr,
            before_plan},
    Command{"convert", "weights from a checkpoint to a Hugging Face folder, or back", nullptr,
            before_convert},
    Command{"logits", "write the logits of a Hugging Face model for given tokens", nullptr, before_logits},
    Command{"compare", "compare two run folders: bit for bit, speed, memory, configuration", run_compare},
    Command{"checkpoint", "list, show, verify and prune the checkpoints of a run", run_checkpoint},
    Command{"config", "check a configuration, or print it with every key resolved", run_config},
    Command{"data", "text to token files, and what is in them", run_data},
    Command{"help", "sections and keys of the configuration", run_help},
    Command{"doctor", "what is installed, what is missing, what to type", run_doctor},
    Command{"opt", "run compiler passes on the text of a graph", run_opt},
};

const Command* find(const std::string& name) {
  for (const Command& command : kCommands)
    if (name == command.name) return &command;
  return nullptr;
}

int exec_worker(const Arguments& words) {
  const std::filesystem::path worker =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rondo-worker";
  std::vector<char*> argv{const_cast<char*>(worker.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(worker.c_str(), argv.data());
  throw Error(ExitCode::environment, "cannot start " + worker.string() + ": " + std::strerror(errno) +
                                         "; it is built beside rondo (run scripts/setup.sh and build again)");
}

void print_help() {
  std::puts("rondo SUBCOMMAND ...   pretrains large language models\n");
  for (const Command& command : kCommands) std::printf("  %-12s %s\n", command.name, command.summary);
  std::puts(
      "\n  --version    version and commit\n  --help       this page; `rondo SUBCOMMAND --help` for one of "
      "them");
}

int run(const Arguments& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print_help();
    return 0;
  }
  if (words[0] == "--version") {
    std::puts("rondo " RONDO_VERSION);
    return 0;
  }
  const Command* command = find(words[0]);
  if (command == nullptr) {
    std::vector<std::string> names;
    for (const Command& known : kCommands) names.emplace_back(known.name);
    throw Error(ExitCode::usage, "unknown subcommand \"" + words[0] + "\"" + did_you_mean(words[0], names) +
                                     "; `rondo --help` lists them");
  }
  const Arguments args{words.begin() + 1, words.end()};
  if (command->run != nullptr) return command->run(args);
  if (command->before != nullptr && !command->before(args)) return 0;
  return exec_worker(words);
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  try {
    return rondo::run({argv + 1, argv + argc});
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "rondo: error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo: internal error: %s\n", error.what());
    return static_cast<int>(rondo::ExitCode::internal);
  }
}

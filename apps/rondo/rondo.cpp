// `rondo SUBCOMMAND ...`: links no LibTorch and starts in milliseconds. Subcommands that need
// LibTorch run in `rondo-worker`, in the same folder, by exec.
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/rondo/subcommands.h"
#include "support/process_start.h"

namespace rondo {
namespace {

// Returns a subcommand of rondo-worker. `before` is its part without LibTorch.
Subcommand worker(const std::string& name, const std::string& summary, bool (*before)(const Arguments&)) {
  return {name, summary, [=](Arguments args) -> int {
            if (!before(args)) return 0;
            args.insert(args.begin(), name);
            exec_worker(args);
          }};
}

int run(const Arguments& words) {
  if (!words.empty() && (words[0] == "--version" || words[0] == "-V")) return run_version({});
  const std::vector<Subcommand> subcommands = {
      worker("train", "train a model as one rank (alone, or started by launch, srun, mpirun or torchrun)",
             before_train),
      {"launch", "run the ranks of a job on this node, with torchrun's flags", run_launch},
      worker("plan", "estimate memory, communication and speed of a job of any size before it runs",
             before_plan),
      worker("tune", "measure the fastest algorithm of each matrix product of a job on a GPU", before_tune),
      {"pipeline", "prove, time and draw a pipeline schedule", run_pipeline},
      {"prove", "prove by execution that layouts of ranks train as one rank does", run_prove},
      worker("convert", "convert weights from a checkpoint to a Hugging Face folder, or back",
             before_convert),
      worker("generate", "continue a text with a checkpoint or a Hugging Face model", before_generate),
      worker("eval", "compute loss and perplexity of a checkpoint or a Hugging Face model on data",
             before_eval),
      worker("logits", "write the logits of a stored model for given tokens", before_logits),
      {"compare", "compare run folders: bits, losses, speed, memory, configuration", run_compare},
      {"report", "show curves and tables of runs as an HTML page or in the terminal", run_report},
      {"top", "watch a run while it trains", run_top},
      {"checkpoint", "list, show, verify and prune the checkpoints of a run", run_checkpoint},
      {"config", "check a configuration, print it with every key resolved, or its schema", run_config},
      {"data", "convert text to token files, and inspect them", run_data},
      {"help", "show sections and keys of the configuration, or the manual page", run_help},
      {"doctor", "check what is installed and what is missing", run_doctor},
      {"opt", "run compiler passes on the text of a graph", run_opt},
      {"completion", "print completion for bash or zsh", run_completion},
      {"version", "print version, commit and build type", run_version},
  };
  return run_subcommand(
      "", subcommands,
      "Rondo pretrains large language models. `rondo SUBCOMMAND --help` describes a subcommand.",
      words.empty() ? Arguments{"--help"} : words);
}

void add_command(const std::string& command, std::vector<CommandSpec>& commands) {
  Arguments words = command.empty() ? Arguments{} : split(command, ' ');
  words.emplace_back("--help");
  HelpCollector collector;
  run(words);
  commands.push_back(collector.commands.at(0));
}

}  // namespace

std::vector<CommandSpec> all_commands() {
  std::vector<CommandSpec> commands;
  add_command("", commands);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i].is_choice) continue;
    const std::string prefix = commands[i].command.empty() ? "" : commands[i].command + " ";
    for (const CommandSpec::Row& row : std::vector(commands[i].rows))
      add_command(prefix + row.names[0], commands);
  }
  return commands;
}

}  // namespace rondo

int main(int argc, char** argv) {
  rondo::prepare_process();
  return rondo::exit_code_of([&] { return rondo::run({argv + 1, argv + argc}); });
}

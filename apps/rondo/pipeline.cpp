// `rondo pipeline`: proves, times, prints and draws a pipeline schedule, named or from a CSV file.
// Needs no model.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/commands.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/grid.h"
#include "parallel/pipeline/layers.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/picture.h"
#include "parallel/pipeline/prove.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulate.h"
#include "support/error.h"
#include "support/files/atomic_file.h"
#include "support/flags/flags.h"
#include "support/flags/terminal.h"

namespace rondo::pipeline {
namespace {

constexpr std::size_t kListedRanks = 16;
constexpr std::int64_t kPipedColumns = 240;  // width of a grid without a terminal

struct Options {
  std::string schedule, csv, write_csv, picture;
  std::optional<std::int32_t> ranks, stages_per_rank, microbatches;
  std::optional<std::int32_t> layers;
  std::vector<StageLayers> layout;  // from --layout
  EndCosts ends;
  std::int32_t slots = 0;
  std::optional<std::int32_t> max_pending;
  bool messages = false;
  Times times;  // per stage, or per layer with --layers or --layout
};

ReadValue layout(std::vector<StageLayers>* stages) {
  return [stages](const std::string& value) { return read_layout(value, *stages); };
}

// Parses "F,I,W".
ReadValue durations(StageTimes* times) {
  return [times](const std::string& value) -> std::string {
    const std::vector<std::string> parts = split(value, ',');
    double* const targets[] = {&times->forward, &times->backward_input, &times->backward_weight};
    const std::string rule = "must be three times above 0 for F, I and W, such as 1,1.2,0.8";
    if (parts.size() != 3) return rule;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto number = number_in<double>(parts[i], 1e-9, 1e9);
      if (!number) return rule;
      *targets[i] = *number;
    }
    return "";
  };
}

bool read_options(const Arguments& args, Options& options) {
  std::string names;
  for (const Schedule& known : schedules()) names += (names.empty() ? "" : ", ") + known.name;
  Flags flags("pipeline",
              "Builds the program of each rank for a pipeline schedule, proves that it terminates with the "
              "right\ngradients, and simulates its time. SCHEDULE is one of\n" +
                  names + ".",
              "Exit code: 0 proven, 2 usage, 3 the schedule is wrong (prints the place and the rule), 4 the "
              "CSV cannot be read, 6 the output cannot be written.");
  flags.positional("SCHEDULE", flag::text(&options.schedule), "name of the schedule; or use --csv",
                   Need::optional);
  flags.value("--ranks", "P", flag::whole(&options.ranks, 1, 8192), "ranks of the pipeline");
  flags.value("--microbatches", "M", flag::whole(&options.microbatches, 1, kMaxMicrobatches),
              "microbatches of a step");
  flags.value("--stages-per-rank", "V", flag::whole(&options.stages_per_rank, 1, kMaxStages),
              "stages of each rank (default 1, or 2 if the schedule needs several)");
  flags.value("--csv", "FILE", flag::text(&options.csv),
              "CSV file with a schedule in torch's format, one row per rank");
  flags.value("--layers", "N", flag::whole(&options.layers, 1, 4096),
              "layers of the model; without --stages-per-rank, divided in the fastest way");
  flags.value("--layout", "TEXT", layout(&options.layout),
              "layers of each stage in Megatron's notation, such as Et*3|(tt|)*29,m|L");
  flags.value("--first-stage-less-layers", "A", flag::number(&options.ends.embedding, 0, 4096),
              "cost of the embedding, in layers (default 1)");
  flags.value("--last-stage-less-layers", "B", flag::number(&options.ends.head, 0, 4096),
              "cost of the head and the loss, in layers (default 1)");
  flags.value("--slots", "N", flag::whole(&options.slots, 1, kMaxMicrobatches),
              "fail if a stage has more than N microbatches in flight");
  flags.value("--max-pending", "N", flag::whole(&options.max_pending, 0, kMaxMicrobatches),
              "maximum microbatches of a stage between I and W; 0: fuse both into B (default: no limit)");
  flags.value("--durations", "F,I,W", durations(&options.times.stages[0]),
              "times of the forward, the input backward and the weight backward of a stage, or of a layer "
              "(default 1,1,1)");
  flags.value("--overlap", "R", flag::number(&options.times.stages[0].overlap, 0.01, 1),
              "time of a paired forward and backward, as a fraction of their sum (default 1)");
  flags.value("--send", "T", flag::number(&options.times.messages[0], 0, 1e9),
              "time of a message (default 0)");
  flags.value("--write-csv", "FILE", flag::text(&options.write_csv),
              "write the schedule in torch's CSV format");
  flags.toggle("--messages", &options.messages, "also write sends, receives and reductions to that file");
  flags.value("--write", "FILE", flag::text(&options.picture),
              "write a picture: .svg, or .html with numbers");
  if (!flags.read(args)) return false;

  std::vector<std::string> problems;
  if (options.schedule.empty() == options.csv.empty()) problems.emplace_back("give either SCHEDULE or --csv");
  for (const char* name : {"--ranks", "--microbatches", "--stages-per-rank"})
    if (!options.csv.empty() && flags.given(name))
      problems.push_back(flags.as_given(name) + " must not be given with --csv, because the file sets it");
  if (!options.schedule.empty())
    for (const char* name : {"--ranks", "--microbatches"})
      if (!flags.given(name)) problems.push_back(std::string(name) + " is missing");
  if (!options.csv.empty() && (options.layers || !options.layout.empty()))
    problems.emplace_back("--layers and --layout need SCHEDULE, not --csv");
  if (options.layers && !options.layout.empty())
    problems.emplace_back("--layers and --layout exclude each other");
  if (!options.layers && options.layout.empty())
    for (const char* name : {"--first-stage-less-layers", "--last-stage-less-layers"})
      if (flags.given(name)) problems.push_back(flags.as_given(name) + " needs --layers or --layout");
  if (options.messages && options.write_csv.empty()) problems.emplace_back("--messages needs --write-csv");
  if (const std::string rule = broken_picture_name(options.picture);
      !options.picture.empty() && !rule.empty())
    problems.push_back(flags.as_given("--write") + " " + rule);
  if (!problems.empty()) flags.fail(problems);
  return true;
}

// A program, and the layers of its stages with --layers or --layout.
struct PipelineProgram {
  Program program;
  std::vector<StageLayers> layers;
};

// Returns the times of stages with these layers.
Times times_of(const std::vector<StageLayers>& layers, const Options& options) {
  if (layers.empty()) return options.times;
  Times times{{}, options.times.messages};
  for (const StageLayers& stage : layers) {
    const double cost = cost_of(stage, options.ends);
    StageTimes scaled = options.times.stages[0];
    for (double* time : {&scaled.forward, &scaled.backward_input, &scaled.backward_weight}) *time *= cost;
    times.stages.push_back(scaled);
  }
  return times;
}

Program limited(Program program, const Options& options) {
  return options.max_pending ? limit_pending(program, *options.max_pending) : program;
}
Program generated(const Schedule& schedule, std::int32_t stages_per_rank, const Options& options) {
  return limited(make_program(schedule, {*options.ranks, stages_per_rank, *options.microbatches}), options);
}

PipelineProgram with_layout(const Schedule& schedule, const Options& options) {
  const std::int32_t stages = static_cast<std::int32_t>(options.layout.size());
  if (stages % *options.ranks != 0)
    throw Error(ExitCode::usage,
                fmt::format("pipeline: --layout has {} stages; their number must be a multiple of --ranks {}",
                            stages, *options.ranks));
  const std::int32_t per_rank = stages / *options.ranks;
  if (options.stages_per_rank.value_or(per_rank) != per_rank)
    throw Error(ExitCode::usage,
                fmt::format("pipeline: --layout has {} stages, {} per rank, but --stages-per-rank is {}",
                            stages, per_rank, *options.stages_per_rank));
  return {generated(schedule, per_rank, options), options.layout};
}

// Tries every possible number of stages, unless it is given, and prints their times.
PipelineProgram with_layers(const Schedule& schedule, const Options& options) {
  const std::int32_t least = options.stages_per_rank.value_or(schedule.least_stages_per_rank);
  const std::int32_t most = options.stages_per_rank.value_or(schedule.most_stages_per_rank);
  PipelineProgram best;
  double best_time = 0;
  if (least < most) fmt::print("stages/rank        time   bubbles  largest stage, in layers\n");
  for (std::int32_t per_rank = least; per_rank <= most; ++per_rank) {
    PipelineProgram tried;
    tried.layers = split_layers(*options.layers, *options.ranks * per_rank, options.ends);
    if (tried.layers.empty()) break;
    tried.program = generated(schedule, per_rank, options);
    const Timeline timeline = simulate(lower(tried.program), times_of(tried.layers, options), false);
    double largest = 0;
    for (const StageLayers& stage : tried.layers) largest = std::max(largest, cost_of(stage, options.ends));
    if (least < most)
      fmt::print("{:>13}{:>10.6g}{:>8.1f} %{:>26.6g}\n", per_rank, timeline.end,
                 100 * timeline.bubble_share(), largest);
    if (!best.layers.empty() && timeline.end >= best_time) continue;
    best_time = timeline.end;
    best = std::move(tried);
  }
  if (best.layers.empty())
    throw Error(ExitCode::usage,
                fmt::format("pipeline: --layers \"{}\" must be at least {}: one for each stage of {} ranks "
                            "with {} each, except the first and the last",
                            *options.layers, *options.ranks * least - 2, *options.ranks, least));
  if (least < most) fmt::print("\n");
  return best;
}

PipelineProgram build_program(const Options& options) {
  if (!options.csv.empty())
    return {limited(read_csv(read_file(options.csv, kLargestCsv, FileUse::data), options.csv), options), {}};
  const Schedule& schedule = schedule_named(options.schedule);
  if (!options.layout.empty()) return with_layout(schedule, options);
  if (options.layers) return with_layers(schedule, options);
  return {generated(schedule, options.stages_per_rank.value_or(schedule.default_stages_per_rank), options),
          {}};
}

void print_summary(const std::string& title, const Program& program, const Proof& proof,
                   const Timeline& timeline) {
  fmt::print("{}: {}\n", title, shape_text(program));
  fmt::print(
      "proven: {} actions, {} messages; no deadlock, no lost message, and weight gradients are summed in "
      "order\n",
      proof.actions, proof.messages);
  fmt::print("time of a step {:.6g}, bubbles {:.1f} % of it; {:.1f} % without warm-up and drain\n",
             timeline.end, 100 * timeline.bubble_share(), 100 * timeline.inner_bubble_share());
}

// Prints time, memory and messages per rank; for many ranks only the least and the most.
void print_tables(const Program& program, const Proof& proof, const Timeline& timeline) {
  const std::size_t ranks = program.ranks.size();
  if (ranks <= kListedRanks) {
    fmt::print("\nrank      busy   bubbles  microbatches in flight   pending\n");
    for (std::size_t rank = 0; rank < ranks; ++rank)
      fmt::print("{:>4}{:>10.6g}{:>8.1f} %{:>24.4g}{:>10.4g}\n", rank, timeline.busy[rank],
                 100 * timeline.bubble_share(rank), microbatches_in_flight(program, proof, rank),
                 microbatches_pending(program, proof, rank));
    if (proof.edges.empty()) return;
    fmt::print("\nedge      messages\n");
    for (const Edge& edge : proof.edges)
      fmt::print("{:>3} -> {:<3}{:>9}\n", edge.from, edge.to, edge.messages);
    return;
  }
  std::vector<double> in_flight, pending;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    in_flight.push_back(microbatches_in_flight(program, proof, rank));
    pending.push_back(microbatches_pending(program, proof, rank));
  }
  const auto [least, most] = std::minmax_element(in_flight.begin(), in_flight.end());
  const auto [few, many] =
      std::minmax_element(proof.edges.begin(), proof.edges.end(),
                          [](const Edge& a, const Edge& b) { return a.messages < b.messages; });
  fmt::print(
      "microbatches in flight: {:.4g} to {:.4g} on a rank, and at most {:.4g} pending\n"
      "edges: {}, with {} to {} messages\n",
      *least, *most, *std::max_element(pending.begin(), pending.end()), proof.edges.size(), few->messages,
      many->messages);
}

int run(const Arguments& args) {
  Options options;
  if (!read_options(args, options)) return 0;
  const PipelineProgram input = build_program(options);
  const Program& program = input.program;
  const std::string title = options.csv.empty() ? schedule_named(options.schedule).name
                                                : std::filesystem::path(options.csv).filename().string();
  const auto [lowered, proof] = lower_and_prove(program, options.slots);

  const bool draws = lowered.action_count() <= kMaxDrawn;
  if (!options.picture.empty()) require_drawable(lowered, "pipeline");
  const Timeline timeline = simulate(lowered, times_of(input.layers, options), draws);
  print_summary(title, program, proof, timeline);
  if (!input.layers.empty()) fmt::print("layers {}\n", print_layout(input.layers));
  const Terminal terminal = stdout_terminal();
  const std::string grid =
      draws ? to_grid(timeline, terminal.is_one ? terminal.columns : kPipedColumns, terminal.color) : "";
  fmt::print("\n{}", grid.empty() ? "too wide for a text grid; --write FILE.svg draws it\n" : grid);
  print_tables(program, proof, timeline);

  if (!options.write_csv.empty())
    replace_file(options.write_csv, to_csv(options.messages ? lowered : program), FileUse::output);
  if (!options.picture.empty())
    write_picture(options.picture,
                  {.title = title, .program = program, .proof = proof, .timeline = timeline});
  return 0;
}

}  // namespace
}  // namespace rondo::pipeline

int rondo::run_pipeline(const Arguments& args) { return pipeline::run(args); }

#include "config/schema/watching.h"

#include "config/schema/value_checks.h"

namespace rondo {
const Fields& Metrics::fields() {
  static const Fields list = {
      field("log_freq", &Metrics::log_freq, "a line on the console every so many steps",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("lag", &Metrics::lag,
            "how many steps late loss and gradient norm are read, so that a GPU has its next step while the "
            "host waits for them: 0 or 1, with the same numbers; -1: 1 on GPUs, 0 on CPUs",
            {.minimum = -1, .maximum = 1, .unit = "steps"}),
      field("enable_tensorboard", &Metrics::enable_tensorboard, "write TensorBoard events"),
      field("save_tb_folder", &Metrics::save_tb_folder, "their folder, below job.dump_folder",
            {.check = not_empty}),
      field("disable_color_printing", &Metrics::disable_color_printing, "no colour on the console"),
      field(
          "verbosity", &Metrics::verbosity,
          "what the console says beside steps, validations and warnings: quiet: nothing; normal: what the "
          "run is made of, and how it ended; detailed: also what every pass did and the plan of the memory"),
      field("enable_csv", &Metrics::enable_csv, "write every step to metrics.csv, too, in job.dump_folder"),
      field("prometheus_file", &Metrics::prometheus_file,
            "a file that is replaced with the numbers of each line of the console, in Prometheus's text "
            "format, as "
            "node_exporter's textfile collector reads it (NAME.prom); empty: none"),
  };
  return list;
}

const Fields& Profiling::fields() {
  using P = Profiling;
  static const Fields list = {
      field("enable_profiling", &P::enable_profiling,
            "write traces of steps that Perfetto shows: modules, phases, ops, collectives"),
      field("save_traces_folder", &P::save_traces_folder, "their folder, below job.dump_folder",
            {.check = plain_subfolder}),
      field("profile_freq", &P::profile_freq, "a trace, and a memory snapshot, every so many steps",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("profiler_active", &P::profiler_active, "steps in a trace: the last ones of profile_freq",
            {.minimum = 1, .maximum = 1e6, .unit = "steps"}),
      field("profiler_warmup", &P::profiler_warmup,
            "steps before those for which the profiler is already set up",
            {.minimum = 0, .maximum = 1e6, .unit = "steps"}),
      field("enable_memory_snapshot", &P::enable_memory_snapshot,
            "write down whose the memory is, every profile_freq steps and where it ran out"),
      field("save_memory_snapshot_folder", &P::save_memory_snapshot_folder, "where, below job.dump_folder",
            {.check = plain_subfolder}),
  };
  return list;
}

const Fields& Comm::fields() {
  static const Fields list = {
      field("init_timeout_seconds", &Comm::init_timeout_seconds, "patience up to the end of the first step",
            {.minimum = 1, .maximum = 1e6, .unit = "seconds"}),
      field(
          "train_timeout_seconds", &Comm::train_timeout_seconds,
          "patience with a collective after that; a step or a validation that stands still (no op begins, "
          "nothing is read or received) for four fifths of it, and for five times as long as the latest ones "
          "took, ends its rank with exit code 7",
          {.minimum = 1, .maximum = 1e6, .unit = "seconds"}),
      field("trace_buf_size", &Comm::trace_buf_size,
            "how many of the latest collectives a rank remembers, to write them down when it loses another "
            "one; 0: none",
            {.minimum = 0, .maximum = 1e7, .unit = "collectives"}),
      field("save_traces_folder", &Comm::save_traces_folder, "where, below job.dump_folder",
            {.check = plain_subfolder}),
      field("save_traces_file_prefix", &Comm::save_traces_file_prefix,
            "a rank's file is this, its number and .json", {.check = file_name}),
  };
  return list;
}

}  // namespace rondo

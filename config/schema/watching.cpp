#include "config/schema/watching.h"

#include "config/schema/value_checks.h"

namespace rondo {
const Fields& Metrics::fields() {
  static const Fields list = {
      field("log_freq", &Metrics::log_freq, "steps between lines on the console",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("lag", &Metrics::lag,
            "steps by which loss and gradient norm are read late, so that a GPU does not wait for the host; "
            "the numbers are equal; -1: 1 on GPUs, 0 on CPUs",
            {.minimum = -1, .maximum = 1, .unit = "steps"}),
      field("enable_tensorboard", &Metrics::enable_tensorboard, "write TensorBoard events"),
      field("save_tb_folder", &Metrics::save_tb_folder, "folder of the events, below job.dump_folder",
            {.check = plain_subfolder}),
      field("disable_color_printing", &Metrics::disable_color_printing, "disable colors on the console"),
      field("verbosity", &Metrics::verbosity,
            "console output besides steps, validations and warnings: quiet: none; normal: a summary at start "
            "and end; detailed: also each pass and the memory plan"),
      field("enable_csv", &Metrics::enable_csv, "also write every step to metrics.csv in job.dump_folder"),
      field("prometheus_file", &Metrics::prometheus_file,
            "file for the numbers of the latest console line in Prometheus's text format, for "
            "node_exporter's textfile collector (NAME.prom); empty: none"),
      field("peak_tflops", &Metrics::peak_tflops,
            "dense bf16 peak of one device, for mfu; 0: the maker's figure of a known GPU, no mfu otherwise",
            {.minimum = 0, .maximum = 1e6, .unit = "TFLOP/s"}),
  };
  return list;
}

const Fields& Profiling::fields() {
  using P = Profiling;
  static const Fields list = {
      field("enable_profiling", &P::enable_profiling,
            "write traces of steps for Perfetto: modules, phases, ops, collectives"),
      field("save_traces_folder", &P::save_traces_folder, "folder of the traces, below job.dump_folder",
            {.check = plain_subfolder}),
      field("profile_freq", &P::profile_freq, "steps between traces, and between memory snapshots",
            {.minimum = 1, .maximum = kMaxSteps, .unit = "steps"}),
      field("profiler_active", &P::profiler_active, "steps per trace: the last of profile_freq",
            {.minimum = 1, .maximum = 1e6, .unit = "steps"}),
      field("profiler_warmup", &P::profiler_warmup, "steps before each trace with the profiler already on",
            {.minimum = 0, .maximum = 1e6, .unit = "steps"}),
      field("enable_memory_snapshot", &P::enable_memory_snapshot,
            "write a memory snapshot every profile_freq steps, and when memory runs out"),
      field("save_memory_snapshot_folder", &P::save_memory_snapshot_folder,
            "folder of the snapshots, below job.dump_folder", {.check = plain_subfolder}),
  };
  return list;
}

const Fields& Comm::fields() {
  static const Fields list = {
      field("init_timeout_seconds", &Comm::init_timeout_seconds,
            "timeout of a collective until the end of the first step",
            {.minimum = 1, .maximum = 1e6, .unit = "seconds"}),
      field("train_timeout_seconds", &Comm::train_timeout_seconds,
            "timeout of a collective after the first step; a step or validation without progress (no op "
            "begins, nothing is read or received) for four fifths of it, and for five times as long as "
            "recent ones took, ends its rank with exit code 7",
            {.minimum = 1, .maximum = 1e6, .unit = "seconds"}),
      field("trace_buf_size", &Comm::trace_buf_size,
            "number of recent collectives that a rank records, to write them when it loses another rank; 0: "
            "none",
            {.minimum = 0, .maximum = 1e7, .unit = "collectives"}),
      field("save_traces_folder", &Comm::save_traces_folder, "folder of these records, below job.dump_folder",
            {.check = plain_subfolder}),
      field("save_traces_file_prefix", &Comm::save_traces_file_prefix,
            "prefix of a rank's file; the rank and .json follow", {.check = file_name}),
  };
  return list;
}

}  // namespace rondo

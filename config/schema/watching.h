// The sections metrics, profiling and comm: what a run shows, and how long it waits for other
// ranks. Part of job_config.h. watching.cpp has the meaning, unit and range of each key. Value
// types.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema/choices.h"
#include "support/fields.h"

namespace rondo {

struct Metrics {
  std::int64_t log_freq = 10;
  std::int64_t lag = -1;  // -1: 1 on GPUs, 0 on CPUs
  bool enable_tensorboard = false;
  std::string save_tb_folder = "tb";
  bool disable_color_printing = false;
  Verbosity verbosity = Verbosity::normal;
  bool enable_csv = false;      // metrics.csv in job.dump_folder
  std::string prometheus_file;  // "": none
  double peak_tflops = 0;       // 0: of the table of GPUs
  static const Fields& fields();
};

struct Profiling {
  bool enable_profiling = false;
  std::string save_traces_folder = "profile_traces";  // below job.dump_folder
  std::int64_t profile_freq = 10;
  std::int64_t profiler_active = 1;
  std::int64_t profiler_warmup = 3;
  bool enable_memory_snapshot = false;
  std::string save_memory_snapshot_folder = "memory_snapshot";  // below job.dump_folder
  static const Fields& fields();
};

struct Comm {
  std::int64_t init_timeout_seconds = 300;
  std::int64_t train_timeout_seconds = 100;
  std::int64_t trace_buf_size = 20000;             // 0: nothing is recorded
  std::string save_traces_folder = "comm_traces";  // below job.dump_folder
  std::string save_traces_file_prefix = "rank_";
  static const Fields& fields();
};

}  // namespace rondo

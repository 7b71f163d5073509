// The numbers of a step as other programs read them: a table and a page for Prometheus. The names are the
// keys of metrics.jsonl.
//
// Errors: FileError of FileUse::run, naming the path.
#pragma once

#include <filesystem>
#include <string>

#include "runs/metrics/step_metrics.h"
#include "support/files/append_file.h"

namespace rondo {

// metrics.csv (RFC 4180, but lines end in \n): a line of names, then a line a step. A cell is empty where the
// model or the run has no such number; what no decimal says is NaN, Infinity or -Infinity. Begins anew with
// every start of a run.
class MetricsTable {
 public:
  explicit MetricsTable(std::filesystem::path file);
  void write(const StepMetrics& metrics);
  // The lines of a metrics.jsonl.
  void take_over(const std::filesystem::path& metrics);

 private:
  AppendFile file_;
};

// A page in Prometheus's text format 0.0.4: a gauge `rondo_NAME{run="RUN"}` for each number that there is.
// The file is replaced at once, so a scrape sees the whole of one step; it is not synced.
std::string prometheus_page(const std::string& run, const StepMetrics& metrics);
void write_prometheus(const std::filesystem::path& file, const std::string& run, const StepMetrics& metrics);

}  // namespace rondo

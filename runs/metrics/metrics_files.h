// Writes the numbers of a step for other programs: a table, and a page for Prometheus. The names
// are the keys of metrics.jsonl.
//
// Errors: FileError of FileUse::run, naming the path.
#pragma once

#include <filesystem>
#include <string>

#include "runs/metrics/step_metrics.h"
#include "support/files/append_file.h"

namespace rondo {

// metrics.csv (RFC 4180, except that lines end in \n): a line of names, then one line per step. A
// cell is empty for a number that the model or the run lacks. Values that are not finite are NaN,
// Infinity or -Infinity. Each start of a run writes the table again.
class MetricsTable {
 public:
  explicit MetricsTable(std::filesystem::path file);
  void write(const StepMetrics& metrics);
  // Appends the lines of a metrics.jsonl.
  void take_over(const std::filesystem::path& metrics);

 private:
  AppendFile file_;
};

// Returns a page in Prometheus's text format 0.0.4: a gauge `rondo_NAME{run="RUN"}` for each
// available number. write_prometheus replaces the file atomically, so a scrape sees one whole step;
// it does not sync the file.
// require_prometheus_file throws Error(environment) for what exists and is no regular file.
void require_prometheus_file(const std::filesystem::path& file);
std::string prometheus_page(const std::string& run, const StepMetrics& metrics);
void write_prometheus(const std::filesystem::path& file, const std::string& run, const StepMetrics& metrics);

}  // namespace rondo

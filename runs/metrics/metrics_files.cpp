// One list of columns defines both forms, in the order of metrics.jsonl. Lines of earlier starts
// are parsed and written again, so a resumed run has the same table as an uninterrupted one.
#include "runs/metrics/metrics_files.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>

#include "support/files/atomic_file.h"
#include "support/files/file_lines.h"

namespace rondo {
namespace {

struct Column {
  const char* name;
  const char* help;
  std::optional<double> (*number)(const StepMetrics&);
};

constexpr Column kColumns[] = {
    {"step", "optimizer steps done", [](const StepMetrics& m) { return std::optional<double>(m.step); }},
    {"loss", "mean over the valid tokens of the global batch",
     [](const StepMetrics& m) { return std::optional(m.loss); }},
    {"grad_norm", "before clipping", [](const StepMetrics& m) { return std::optional(m.grad_norm); }},
    {"lr", "learning rate", [](const StepMetrics& m) { return std::optional(m.lr); }},
    {"step_time_s", "seconds a step", [](const StepMetrics& m) { return std::optional(m.step_time_s); }},
    {"tokens_per_s", "of one device", [](const StepMetrics& m) { return std::optional(m.tokens_per_s); }},
    {"tflops", "of one device", [](const StepMetrics& m) { return std::optional(m.tflops); }},
    {"mfu", "percent of the device's peak", [](const StepMetrics& m) { return m.mfu; }},
    {"memory_gib", "peak of a device", [](const StepMetrics& m) { return std::optional(m.memory_gib); }},
    {"data_wait_fraction", "share of the time spent waiting for data",
     [](const StepMetrics& m) { return std::optional(m.data_wait_fraction); }},
    {"tokens_seen", "by all ranks since the start of the run",
     [](const StepMetrics& m) { return std::optional<double>(m.tokens_seen); }},
    {"load_imbalance", "tokens of the fullest expert over the mean",
     [](const StepMetrics& m) { return m.load_imbalance; }},
    {"attention_imbalance", "query-key pairs of the busiest context-parallel rank over the mean, less 1",
     [](const StepMetrics& m) { return m.attention_imbalance; }},
};

// Returns a number as text. `not_a_number`, `infinity`: the spellings of the format.
std::string number_text(double value, const char* not_a_number, const char* infinity) {
  if (std::isnan(value)) return not_a_number;
  if (std::isinf(value)) return value > 0 ? infinity : fmt::format("-{}", infinity + (*infinity == '+'));
  return fmt::format("{}", value);
}

std::string table_row(const StepMetrics& metrics) {
  std::string row;
  for (const Column& column : kColumns) {
    if (&column != kColumns) row += ',';
    if (const auto number = column.number(metrics)) row += number_text(*number, "NaN", "Infinity");
  }
  return row + "," + metrics.state_hash.value_or("") + "\n";
}

// Escapes the value of a label.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

}  // namespace

MetricsTable::MetricsTable(std::filesystem::path file) : file_(std::move(file)) {
  file_.cut(0);
  std::string names;
  for (const Column& column : kColumns) names += std::string(column.name) + ",";
  file_.append(names + "state_hash\n");
}

void MetricsTable::write(const StepMetrics& metrics) { file_.append(table_row(metrics)); }

void MetricsTable::take_over(const std::filesystem::path& metrics) {
  FileLines in(metrics, FileUse::run);
  std::string rows;
  while (const auto line = in.next()) rows += table_row(parse_step_metrics(*line));
  if (!rows.empty()) file_.append(rows);
}

void require_prometheus_file(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(file, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(
        ExitCode::environment,
        fmt::format("metrics.prometheus_file = \"{}\" is no regular file, and would be replaced; name "
                    "another file",
                    file.string()));
}

std::string prometheus_page(const std::string& run, const StepMetrics& metrics) {
  std::string page;
  for (const Column& column : kColumns)
    if (const auto number = column.number(metrics))
      page += fmt::format("# HELP rondo_{0} {1}\n# TYPE rondo_{0} gauge\nrondo_{0}{{run=\"{2}\"}} {3}\n",
                          column.name, column.help, escaped(run), number_text(*number, "NaN", "+Inf"));
  return page;
}

void write_prometheus(const std::filesystem::path& file, const std::string& run, const StepMetrics& metrics) {
  const std::string page = prometheus_page(run, metrics);
  AtomicFile out(file, FileUse::run);
  out.write_at(0, std::as_bytes(std::span(page)));
  out.commit(/*durable=*/false);
}

}  // namespace rondo

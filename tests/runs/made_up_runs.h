// Synthetic run folders, for the tests of their readers.
#pragma once

#include <string>
#include <vector>

#include "runs/metrics/step_metrics.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {

inline constexpr const char* kConfig =
    "[training]\nsteps = 20\ndataset = \"text\"\n[compile]\nenable = true\n";

// 1000 tokens per step; the loss falls by 0.1 per step from 7.9.
inline std::vector<StepMetrics> steps(std::int64_t first, std::int64_t last) {
  std::vector<StepMetrics> lines;
  for (std::int64_t step = first; step <= last; ++step) {
    StepMetrics line;
    line.step = step;
    line.loss = 8.0 - 0.1 * static_cast<double>(step);
    line.grad_norm = 1.5;
    line.lr = 1e-3;
    line.step_time_s = step == 1 ? 3.0 : 0.5;
    line.tokens_per_s = step == 1 ? 100 : 2000;
    line.memory_gib = 0.25;
    line.tokens_seen = 1000 * step;
    line.state_hash = fmt::format("{:016x}", step * 7919);
    lines.push_back(line);
  }
  return lines;
}

inline std::string jsonl(const std::vector<StepMetrics>& lines) {
  std::string text;
  for (const StepMetrics& line : lines) text += to_json(line) + "\n";
  return text;
}

inline void write_run(const std::filesystem::path& folder, const std::vector<StepMetrics>& lines,
                      const std::string& config = kConfig) {
  write_text(folder / "metrics.jsonl", jsonl(lines));
  write_text(folder / "config.toml", config);
}

}  // namespace rondo

#include "trainer/observe/metrics/expert_load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace rondo {
namespace {

constexpr const char* kFileName = "expert_load.jsonl";

// Of a line; a negative number where it has none.
std::int64_t step_of(const std::string& line) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool has_step = value.is_object() && value.contains("step") && value["step"].is_number_integer();
  return has_step ? value["step"].get<std::int64_t>() : -1;
}

}  // namespace

ExpertLoadWriter::ExpertLoadWriter(const std::filesystem::path& run_folder, std::vector<std::string> routers)
    : routers_(std::move(routers)), file_(run_folder / kFileName) {}

void ExpertLoadWriter::write(std::int64_t step, std::span<const float> tokens_LE) {
  const std::size_t experts = tokens_LE.size() / routers_.size();
  std::vector<std::string> rows;
  for (std::size_t router = 0; router < routers_.size(); ++router) {
    const std::span<const float> row = tokens_LE.subspan(router * experts, experts);
    rows.push_back(fmt::format(R"("{}":[{:.0f}])", routers_[router], fmt::join(row, ",")));
  }
  file_.append(fmt::format(R"({{"step":{},"tokens_per_expert":{{{}}}}})", step, fmt::join(rows, ",")) + "\n");
}

void ExpertLoadWriter::take_over(const std::filesystem::path& earlier_run, std::int64_t last_step) {
  std::ifstream file(earlier_run / kFileName, std::ios::binary);
  std::string lines;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const std::int64_t step = step_of(line);
    if (step < 0 || step > last_step) break;
    lines += line + "\n";
  }
  if (!lines.empty()) file_.append(lines);
}

}  // namespace rondo

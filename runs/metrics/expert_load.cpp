#include "runs/metrics/expert_load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rondo {
namespace {

constexpr const char* kFileName = "expert_load.jsonl";

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

}  // namespace rondo

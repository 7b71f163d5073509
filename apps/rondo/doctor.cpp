// `rondo doctor [--json]`: reports what is installed, what is missing and which commands help.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/rondo/doctor_checks.h"
#include "support/error.h"
#include "support/flags/flags.h"
#include "support/process_start.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

// The first start reads some hundred megabytes of LibTorch from disk.
constexpr int kWorkerTimeoutMs = 60'000;

const char* name_of(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::warning:
      return "warning";
    case Health::absent:
      return "absent";
    case Health::missing:
      return "missing";
  }
  return "";
}

std::string text_report(const std::vector<Finding>& findings, bool healthy) {
  std::string text;
  for (const Finding& f : findings) {
    text += fmt::format("{:<8} {:<12} {}\n", name_of(f.health), f.subject, f.detail);
    if (!f.advice.empty()) text += fmt::format("{:<21} -> {}\n", "", f.advice);
  }
  text += healthy ? "\nTraining on CPU can work here.\n"
                  : "\nTraining cannot work here yet; see the lines with \"missing\".\n";
  return text;
}

std::string json_report(const std::vector<Finding>& findings, bool healthy) {
  ordered_json list = ordered_json::array();
  for (const Finding& f : findings)
    list.push_back(
        {{"status", name_of(f.health)}, {"subject", f.subject}, {"detail", f.detail}, {"advice", f.advice}});
  const ordered_json whole = {{"cpu_training_works", healthy}, {"findings", list}};
  return whole.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_doctor(const Arguments& args) {
  bool json = false;
  Flags flags("doctor", "Checks this machine: what is installed, what is missing, and which commands help.",
              "Exit code: 0 if training on CPU can work here, 6 if not.");
  flags.toggle("--json", &json, "print one JSON object instead of text");
  if (!flags.read(args)) return 0;
  const std::vector<Finding> findings =
      examine(program_folder(), std::filesystem::current_path(), kWorkerTimeoutMs);
  const bool healthy = std::none_of(findings.begin(), findings.end(),
                                    [](const Finding& f) { return f.health == Health::missing; });
  std::fputs((json ? json_report(findings, healthy) : text_report(findings, healthy)).c_str(), stdout);
  return healthy ? 0 : static_cast<int>(ExitCode::environment);
}

}  // namespace rondo

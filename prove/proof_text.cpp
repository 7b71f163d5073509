#include "prove/proof_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rondo {
namespace {

struct Column {
  const char* name;
  const char* key;
  double Differences::*value;
};
constexpr Column kColumns[] = {{"loss", "loss", &Differences::loss},
                               {"norm", "grad_norm", &Differences::grad_norm},
                               {"gradients", "gradients", &Differences::gradients},
                               {"parameters", "parameters", &Differences::parameters},
                               {"state", "state", &Differences::state}};

std::size_t width_of(const std::vector<ProofCase>& cases) {
  std::size_t width = 6;
  for (const ProofCase& one : cases) width = std::max(width, one.text().size());
  return std::min<std::size_t>(width, 72);
}

std::string number(double value) { return value == 0 ? "0" : fmt::format("{:.1e}", value); }

}  // namespace

std::string proof_sizes(const JobConfig& proof_job) {
  std::string text = "small model:";
  for (const char* name : {"n_layers", "n_heads", "n_kv_heads", "head_dim", "dim", "n_experts", "top_k"})
    if (const auto size = proof_job.model.sizes.find(name); size != proof_job.model.sizes.end())
      text += fmt::format(" {} {},", name, std::get<std::int64_t>(size->second));
  text.back() = ';';
  return text + " --layout ...,model.n_layers=4 changes a size\n";
}

std::string proof_header(const std::vector<ProofCase>& cases) {
  std::string line = fmt::format("{:<{}}  ranks", "layout", width_of(cases));
  for (const Column& column : kColumns) line += fmt::format("  {:>10}", column.name);
  return line + "\n";
}

std::string proof_line(const std::vector<ProofCase>& cases, const Proof& proof) {
  std::string line = fmt::format("{:<{}}  {:>5}", proof.layout.text(), width_of(cases), proof.layout.ranks());
  if (proof.is_refused()) return line + "  refused: " + proof.end.reason + "\n";
  if (!proof.ran())
    return line + fmt::format("  the run ends with exit code {}: {}\n", proof.end.code, proof.end.reason);
  for (const Column& column : kColumns)
    line += fmt::format("  {:>10}", number(proof.differences.*column.value));
  line += "\n";
  for (const std::string& finding : proof.differences.findings) line += "  differs: " + finding + "\n";
  return line;
}

std::string proof_summary(const std::vector<Proof>& proofs, double seconds) {
  const auto held = std::count_if(proofs.begin(), proofs.end(), [](const Proof& one) { return one.holds(); });
  const auto refused =
      std::count_if(proofs.begin(), proofs.end(), [](const Proof& one) { return one.is_refused(); });
  std::string text = fmt::format("{} of {} layouts equal one rank", held, proofs.size());
  if (refused > 0) text += fmt::format(", {} {} refused by a rule", refused, refused == 1 ? "is" : "are");
  text += ";";
  for (const Column& column : kColumns) {
    if (held == 0) break;
    double most = 0;
    for (const Proof& proof : proofs)
      if (proof.holds()) most = std::max(most, proof.differences.*column.value);
    text += fmt::format("{} {} {},", &column == kColumns ? " at most" : "", column.name, number(most));
  }
  if (held > 0) text.back() = ';';
  return text + fmt::format(" {:.0f} s\n", seconds);
}

std::string proof_json(const std::vector<Proof>& proofs) {
  nlohmann::json layouts = nlohmann::json::array();
  bool holds = true;
  for (const Proof& proof : proofs) {
    nlohmann::json one = {{"layout", proof.layout.text()},
                          {"ranks", proof.layout.ranks()},
                          {"holds", proof.holds()},
                          {"seconds", proof.seconds}};
    holds = holds && proof.holds();
    if (!proof.ran()) {
      one["exit_code"] = proof.end.code;
      one["failure"] = proof.end.reason;
    } else {
      for (const Column& column : kColumns) one[column.key] = proof.differences.*column.value;
      if (!proof.holds()) one["findings"] = proof.differences.findings;
    }
    layouts.push_back(std::move(one));
  }
  return nlohmann::json({{"holds", holds}, {"layouts", std::move(layouts)}}).dump() + "\n";
}

}  // namespace rondo

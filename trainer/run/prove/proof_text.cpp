#include "trainer/run/prove/proof_text.h"

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

std::string proof_header(const std::vector<ProofCase>& cases) {
  std::string line = fmt::format("{:<{}}  ranks", "layout", width_of(cases));
  for (const Column& column : kColumns) line += fmt::format("  {:>10}", column.name);
  return line + "\n";
}

std::string proof_line(const std::vector<ProofCase>& cases, const Proof& proof) {
  std::string line = fmt::format("{:<{}}  {:>5}", proof.layout.text(), width_of(cases), proof.layout.ranks());
  if (!proof.failure.empty()) return line + "  the run " + proof.failure + "\n";
  for (const Column& column : kColumns)
    line += fmt::format("  {:>10}", number(proof.differences.*column.value));
  line += "\n";
  for (const std::string& finding : proof.differences.findings) line += "  differs: " + finding + "\n";
  return line;
}

std::string proof_summary(const std::vector<Proof>& proofs, double seconds) {
  const auto held = std::count_if(proofs.begin(), proofs.end(), [](const Proof& one) { return one.holds(); });
  std::string text = fmt::format("{} of {} layouts equal one rank; at most", held, proofs.size());
  for (const Column& column : kColumns) {
    double most = 0;
    for (const Proof& proof : proofs)
      if (proof.holds()) most = std::max(most, proof.differences.*column.value);
    text += fmt::format(" {} {},", column.name, number(most));
  }
  text.back() = ';';
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
    if (!proof.failure.empty()) {
      one["failure"] = proof.failure;
    } else {
      for (const Column& column : kColumns) one[column.key] = proof.differences.*column.value;
      if (!proof.holds()) one["findings"] = proof.differences.findings;
    }
    layouts.push_back(std::move(one));
  }
  return nlohmann::json({{"holds", holds}, {"layouts", std::move(layouts)}}).dump() + "\n";
}

}  // namespace rondo

// Reads whole tensors, since models of proofs are small. A common factor is found by least squares.
// If it explains all differences, it is reported instead of them.
#include "prove/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "checkpoint/reader.h"
#include "prove/proof_job.h"
#include "runs/read_run.h"
#include "support/error.h"
#include "support/files/file.h"

namespace rondo {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kMaxBytes = 1 << 24;  // of expert_load.jsonl
const std::string kMoments = "optimizer/exp_avg.", kMomentums = "optimizer/momentum.";

// Returns the content of expert_load.jsonl, one line per step; "" without experts.
std::string expert_load_of(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "expert_load.jsonl";
  return std::filesystem::exists(file) ? read_file(file, kMaxBytes, FileUse::data) : "";
}

std::vector<StepMetrics> metrics_of(const std::filesystem::path& run) {
  std::vector<StepMetrics> steps;
  StepReader reader(run, CutLine::refused);
  while (auto step = reader.next()) steps.push_back(std::move(*step));
  if (std::ssize(steps) != kProofSteps)
    throw Error(ExitCode::data,
                fmt::format("{}: {} steps are reported, not {}", run.string(), steps.size(), kProofSteps));
  return steps;
}

Numbers read_tensor(checkpoint::Reader& reader, const checkpoint::TensorRecord& tensor) {
  const std::int64_t count = checkpoint::elements_of(tensor.shape, tensor.dtype);
  const auto read = [&]<class T>(T) {
    std::vector<T> stored(static_cast<std::size_t>(count));
    reader.read(tensor.name, 0, count, std::as_writable_bytes(std::span(stored)));
    return Numbers(stored.begin(), stored.end());
  };
  if (tensor.dtype == "f64") return read(double());
  if (tensor.dtype == "f32") return read(float());
  throw Error(ExitCode::checkpoint, fmt::format("{} has dtype {}, but a proof compares only f64 and f32",
                                                tensor.name, tensor.dtype));
}

double largest(std::span<const double> numbers) {
  double maximum = 0;
  for (const double number : numbers) maximum = std::max(maximum, std::abs(number));
  return maximum;
}

// Returns the largest difference over the largest element, but at least `least`. Returns infinity
// if a number is NaN, or if only one side is zero and `least` is 0.
double relative_difference(std::span<const double> expected, std::span<const double> actual,
                           double least = 0) {
  double maximum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(expected[i] - actual[i]);
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    maximum = std::max(maximum, difference);
  }
  return maximum == 0 ? 0 : maximum / std::max(largest(expected), least);
}

double relative_difference(double expected, double actual) {
  return relative_difference(std::span(&expected, 1), std::span(&actual, 1));
}

// Returns the factor by which the optimizer divided the gradients.
double clip_of(const StepMetrics& step, double max_norm) {
  return std::max(static_cast<double>(static_cast<float>((step.grad_norm + 1e-6) / max_norm)), 1.0);
}

// Returns the axes with `ranks`, e.g. "dp_shard or tp"; "" without any.
std::string axes_of(const Compared& compared, std::int64_t ranks) {
  std::vector<std::string> names;
  for (const auto& [name, degree] : compared.axes)
    if (degree == ranks) names.push_back(name);
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string cause_of(double factor, const Compared& compared) {
  for (const bool times : {true, false}) {
    const double number = times ? factor : 1 / factor;
    const auto ranks = static_cast<std::int64_t>(std::llround(number));
    if (ranks < 2 || std::abs(number - static_cast<double>(ranks)) > 1e-6) continue;
    const std::string axes = axes_of(compared, ranks);
    if (axes.empty()) continue;
    return times
               ? fmt::format(": it may be added up once more over {}", axes)
               : fmt::format(": a sum over {} may be missing, or a part be counted once for each rank", axes);
  }
  return "";
}

// Compares the tensors of two checkpoints.
class Comparison {
 public:
  Comparison(const std::filesystem::path& one, const std::filesystem::path& other, const Compared& compared)
      : expected_(one), actual_(other), compared_(compared) {}

  // Returns whether the checkpoint of one rank has a tensor.
  bool has(const std::string& name) const { return expected_.manifest().find(name) != nullptr; }

  // Returns the relative difference of a tensor, which messages call `shown`. Both sides are first
  // multiplied by their factors. Describes a difference beyond the bound in `finding`, if that
  // is empty.
  double compare(const std::string& name, const std::string& shown, double bound, std::string& finding,
                 double expected_factor = 1, double actual_factor = 1) {
    const checkpoint::TensorRecord* expected = expected_.manifest().find(name);
    const checkpoint::TensorRecord* actual = actual_.manifest().find(name);
    if (expected == nullptr)
      throw Error(ExitCode::data, name + " is missing from the checkpoint of one rank");
    ++tensors_;
    double difference = std::numeric_limits<double>::infinity();
    std::string what = "it is missing, or has another shape";
    if (actual != nullptr && actual->shape == expected->shape) {
      Numbers a = read_tensor(expected_, *expected), b = read_tensor(actual_, *actual);
      for (double& number : a) number *= expected_factor;
      for (double& number : b) number *= actual_factor;
      difference = relative_difference(a, b, kLeast * expected_factor * largest_of_kind(name));
      if (difference <= bound) return difference;
      what = describe_difference(a, b, bound, compared_);
    }
    if (finding.empty()) finding = fmt::format("{}: {:.1e} apart; {}", shown, difference, what);
    return difference;
  }
  // Compares all tensors whose names begin with `prefix`, in the order of the checkpoint.
  double compare_all(const std::string& prefix, double bound, std::string& finding) {
    double maximum = 0;
    for (const checkpoint::TensorRecord& tensor : expected_.manifest().tensors)
      if (tensor.name.starts_with(prefix))
        maximum = std::max(maximum, compare(tensor.name, tensor.name, bound, finding));
    return maximum;
  }
  std::size_t tensors() const { return tensors_; }

 private:
  // A tensor may be zero except for rounding, like the gradient of a router whose single chosen
  // score is normalized to 1. Its differences are relative to this fraction of the largest element
  // of all tensors of its kind.
  static constexpr double kLeast = 1e-2;

  // Returns the largest element of the reference's tensors of the same kind:
  // "optimizer/exp_avg.", "model/".
  double largest_of_kind(const std::string& name) {
    const std::size_t slash = name.find('/'), dot = name.find('.', slash);
    const std::string kind =
        name.substr(0, dot == name.npos || name.starts_with("model/") ? slash + 1 : dot + 1);
    const auto [at, is_new] = largest_of_kind_.try_emplace(kind, 0);
    if (is_new)
      for (const checkpoint::TensorRecord& tensor : expected_.manifest().tensors)
        if (tensor.name.starts_with(kind))
          at->second = std::max(at->second, largest(read_tensor(expected_, tensor)));
    return at->second;
  }

  checkpoint::Reader expected_, actual_;
  const Compared& compared_;
  std::size_t tensors_ = 0;
  std::map<std::string, double> largest_of_kind_;
};

std::filesystem::path saved(const std::filesystem::path& run, std::int64_t step) {
  return run / "checkpoint" / fmt::format("step-{}", step);
}

}  // namespace

std::string describe_difference(std::span<const double> expected, std::span<const double> actual,
                                double bound, const Compared& compared) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    product += expected[i] * actual[i], square += expected[i] * expected[i];
  if (square == 0) return "it should be all zero";
  if (largest(actual) == 0) return "it is all zero";
  const double factor = product / square;
  double residual = 0;
  std::size_t first = expected.size(), last = 0, count = 0;
  const double least = bound * largest(expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    residual = std::max(residual, std::abs(actual[i] - factor * expected[i]));
    if (std::abs(actual[i] - expected[i]) <= least) continue;
    first = std::min(first, i);
    last = i;
    ++count;
  }
  const bool is_scaled = std::abs(factor - 1) > 1e-6 && residual < 1e-9 * largest(actual);
  if (std::isfinite(factor) && is_scaled)
    return fmt::format("every element is {:.6g} times what it should be{}", factor,
                       cause_of(factor, compared));
  return fmt::format("{} of {} elements differ, from {} to {} of the flattened tensor", count,
                     expected.size(), first, last);
}

Differences differences(const std::filesystem::path& one, const std::filesystem::path& other,
                        const Compared& compared, const Bounds& bounds) {
  Differences result;
  const auto add = [&](const std::string& finding) {
    if (!finding.empty()) result.findings.push_back(finding);
  };
  const std::vector<StepMetrics> expected = metrics_of(one), actual = metrics_of(other);
  // `power`: 2 for a norm, whose square is a sum.
  const auto compare_number = [&](const char* name, std::size_t step, double a, double b, int power,
                                  double& maximum) {
    const double difference = relative_difference(a, b);
    maximum = std::max(maximum, difference);
    if (difference <= (step == 0 ? bounds.gradients : bounds.state)) return;
    std::string cause = cause_of(b / a, compared);
    if (cause.empty() && power == 2) cause = cause_of(b / a * b / a, compared);
    add(fmt::format("{} of step {}: {} instead of {}, {:.9g} times what it should be{}", name, step + 1, b, a,
                    b / a, cause));
  };
  const auto compare_step = [&](std::size_t step) {
    compare_number("loss", step, expected[step].loss, actual[step].loss, 1, result.loss);
    compare_number("grad_norm", step, expected[step].grad_norm, actual[step].grad_norm, 2, result.grad_norm);
  };
  compare_step(0);

  std::string gradient;
  const double expected_clip = clip_of(expected[0], compared.max_norm),
               actual_clip = clip_of(actual[0], compared.max_norm);
  Comparison first(saved(one, 1), saved(other, 1), compared);
  for (auto name = compared.parameters.rbegin(); name != compared.parameters.rend(); ++name) {
    const bool by_muon = first.has(kMomentums + *name);
    const double share = 1 - (by_muon ? compared.muon_momentum : compared.beta1);
    result.gradients =
        std::max(result.gradients,
                 first.compare((by_muon ? kMomentums : kMoments) + *name, "gradient of " + *name,
                               bounds.gradients, gradient, expected_clip / share, actual_clip / share));
  }
  add(gradient);
  if (expert_load_of(one) != expert_load_of(other))
    add("tokens were routed to other experts: expert_load.jsonl differs");

  const std::vector<std::string> first_findings = result.findings;
  for (std::size_t step = 1; step < expected.size(); ++step) compare_step(step);
  Comparison last(saved(one, kProofSteps), saved(other, kProofSteps), compared);
  std::string parameter, state;
  result.parameters = last.compare_all("model/", bounds.state, parameter);
  result.state = last.compare_all("optimizer/", bounds.state, state);
  add(parameter);
  add(state);
  if (!first_findings.empty()) result.findings = first_findings;  // later differences follow
  result.tensors = first.tensors() + last.tensors();
  return result;
}

}  // namespace rondo

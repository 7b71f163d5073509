// Tensors are read whole, since models of proofs are small. A factor is found by least squares: where it
// leaves nothing over, it tells more than any difference does.
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

constexpr std::int64_t kMostBytes = 1 << 24;  // of a file of lines
const std::string kMoments = "optimizer/exp_avg.";

// What routers did, a line a step; "" without experts.
std::string expert_load_of(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "expert_load.jsonl";
  return std::filesystem::exists(file) ? read_file(file, kMostBytes, FileUse::data) : "";
}

std::vector<StepMetrics> metrics_of(const std::filesystem::path& run) {
  std::vector<StepMetrics> steps = read_run(run).lines;
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
  throw Error(ExitCode::checkpoint,
              fmt::format("{} is of dtype {}, and a proof takes f64 and f32", tensor.name, tensor.dtype));
}

double largest(std::span<const double> numbers) {
  double most = 0;
  for (const double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

// Returns the largest difference over the largest element, which counts as `least` at least; infinity where a
// number is none, or where one side alone is zero and `least` is 0.
double apart(std::span<const double> right, std::span<const double> found, double least = 0) {
  double most = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double difference = std::abs(right[i] - found[i]);
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    most = std::max(most, difference);
  }
  return most == 0 ? 0 : most / std::max(largest(right), least);
}

double apart(double right, double found) { return apart(std::span(&right, 1), std::span(&found, 1)); }

// What the optimizer divided the gradients by.
double clip_of(const StepMetrics& step, double max_norm) {
  return std::max(static_cast<double>(static_cast<float>((step.grad_norm + 1e-6) / max_norm)), 1.0);
}

// "dp_shard or tp" of those with `ranks`; "" where there is none.
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

// Compares tensors of two checkpoints.
class Comparison {
 public:
  Comparison(const std::filesystem::path& one, const std::filesystem::path& other, const Compared& compared)
      : right_(one), found_(other), compared_(compared) {}

  // Returns how far they are apart; says in `finding` what is beyond the bound, unless it says something.
  // Both sides are multiplied by their factors before, and then called `shown`.
  double compare(const std::string& name, const std::string& shown, double bound, std::string& finding,
                 double right_factor = 1, double found_factor = 1) {
    const checkpoint::TensorRecord* right = right_.manifest().find(name);
    const checkpoint::TensorRecord* found = found_.manifest().find(name);
    if (right == nullptr)
      throw Error(ExitCode::data, name + " is not in the checkpoint of one rank, and a proof compares it");
    ++tensors_;
    double difference = std::numeric_limits<double>::infinity();
    std::string what = "it is missing, or has another shape";
    if (found != nullptr && found->shape == right->shape) {
      Numbers a = read_tensor(right_, *right), b = read_tensor(found_, *found);
      for (double& number : a) number *= right_factor;
      for (double& number : b) number *= found_factor;
      difference = apart(a, b, kLeast * right_factor * largest_of_kind(name));
      if (difference <= bound) return difference;
      what = describe_difference(a, b, bound, compared_);
    }
    if (finding.empty()) finding = fmt::format("{}: {:.1e} apart; {}", shown, difference, what);
    return difference;
  }
  // All whose names begin so, in the order of the checkpoint.
  double compare_all(const std::string& prefix, double bound, std::string& finding) {
    double most = 0;
    for (const checkpoint::TensorRecord& tensor : right_.manifest().tensors)
      if (tensor.name.starts_with(prefix))
        most = std::max(most, compare(tensor.name, tensor.name, bound, finding));
    return most;
  }
  std::size_t tensors() const { return tensors_; }

 private:
  // A tensor may be zero but for rounding, as the gradient of a router whose one chosen score is normalized
  // to 1. Its differences are then relative to this share of the largest element of all tensors of its kind.
  static constexpr double kLeast = 1e-2;

  // The largest element of one rank's tensors of the same kind: "optimizer/exp_avg.", "model/".
  double largest_of_kind(const std::string& name) {
    const std::size_t slash = name.find('/'), dot = name.find('.', slash);
    const std::string kind =
        name.substr(0, dot == name.npos || name.starts_with("model/") ? slash + 1 : dot + 1);
    const auto [at, is_new] = largest_of_kind_.try_emplace(kind, 0);
    if (is_new)
      for (const checkpoint::TensorRecord& tensor : right_.manifest().tensors)
        if (tensor.name.starts_with(kind))
          at->second = std::max(at->second, largest(read_tensor(right_, tensor)));
    return at->second;
  }

  checkpoint::Reader right_, found_;
  const Compared& compared_;
  std::size_t tensors_ = 0;
  std::map<std::string, double> largest_of_kind_;
};

std::filesystem::path saved(const std::filesystem::path& run, std::int64_t step) {
  return run / "checkpoint" / fmt::format("step-{}", step);
}

}  // namespace

std::string describe_difference(std::span<const double> right, std::span<const double> found, double bound,
                                const Compared& compared) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < right.size(); ++i)
    product += right[i] * found[i], square += right[i] * right[i];
  if (square == 0) return "it should be all zero";
  if (largest(found) == 0) return "it is all zero";
  const double factor = product / square;
  double left_over = 0;
  std::size_t first = right.size(), last = 0, count = 0;
  const double least = bound * largest(right);
  for (std::size_t i = 0; i < right.size(); ++i) {
    left_over = std::max(left_over, std::abs(found[i] - factor * right[i]));
    if (std::abs(found[i] - right[i]) <= least) continue;
    first = std::min(first, i);
    last = i;
    ++count;
  }
  const bool is_scaled = std::abs(factor - 1) > 1e-6 && left_over < 1e-9 * largest(found);
  if (std::isfinite(factor) && is_scaled)
    return fmt::format("every element is {:.6g} times what it should be{}", factor,
                       cause_of(factor, compared));
  return fmt::format("{} of {} elements differ, from {} to {} of the flattened tensor", count, right.size(),
                     first, last);
}

Differences differences(const std::filesystem::path& one, const std::filesystem::path& other,
                        const Compared& compared, const Bounds& bounds) {
  Differences result;
  const auto add = [&](const std::string& finding) {
    if (!finding.empty()) result.findings.push_back(finding);
  };
  const std::vector<StepMetrics> right = metrics_of(one), found = metrics_of(other);
  // `power`: 2 of a norm, whose square is a sum.
  const auto look_at = [&](const char* name, std::size_t step, double a, double b, int power, double& most) {
    const double difference = apart(a, b);
    most = std::max(most, difference);
    if (difference <= (step == 0 ? bounds.gradients : bounds.state)) return;
    std::string cause = cause_of(b / a, compared);
    if (cause.empty() && power == 2) cause = cause_of(b / a * b / a, compared);
    add(fmt::format("{} of step {}: {} instead of {}, {:.9g} times what it should be{}", name, step + 1, b, a,
                    b / a, cause));
  };
  const auto look_at_step = [&](std::size_t step) {
    look_at("loss", step, right[step].loss, found[step].loss, 1, result.loss);
    look_at("grad_norm", step, right[step].grad_norm, found[step].grad_norm, 2, result.grad_norm);
  };
  look_at_step(0);

  std::string gradient;
  const double of_right = clip_of(right[0], compared.max_norm) / (1 - compared.beta1),
               of_found = clip_of(found[0], compared.max_norm) / (1 - compared.beta1);
  Comparison first(saved(one, 1), saved(other, 1), compared);
  for (auto name = compared.parameters.rbegin(); name != compared.parameters.rend(); ++name)
    result.gradients =
        std::max(result.gradients, first.compare(kMoments + *name, "gradient of " + *name, bounds.gradients,
                                                 gradient, of_right, of_found));
  add(gradient);
  if (expert_load_of(one) != expert_load_of(other))
    add("tokens went to other experts: expert_load.jsonl differs");

  const std::vector<std::string> of_first_step = result.findings;
  for (std::size_t step = 1; step < right.size(); ++step) look_at_step(step);
  Comparison last(saved(one, kProofSteps), saved(other, kProofSteps), compared);
  std::string parameter, state;
  result.parameters = last.compare_all("model/", bounds.state, parameter);
  result.state = last.compare_all("optimizer/", bounds.state, state);
  add(parameter);
  add(state);
  if (!of_first_step.empty()) result.findings = of_first_step;  // the rest follows from it
  result.tensors = first.tensors() + last.tensors();
  return result;
}

}  // namespace rondo

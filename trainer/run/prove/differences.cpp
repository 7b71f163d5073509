// Tensors are read whole, since models of proofs are small. A factor is found by least squares: where it
// leaves nothing over, it tells more than any difference does.
#include "trainer/run/prove/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/error.h"
#include "support/files/file.h"
#include "support/flags/flag_values.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/observe/metrics/step_metrics.h"
#include "trainer/run/prove/proof_job.h"

namespace rondo {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kMostBytes = 1 << 24;  // of a file of lines
const std::string kMoments = "optimizer/exp_avg.";

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  std::vector<std::string> lines = split(read_file(file, kMostBytes, FileUse::data), '\n');
  std::erase(lines, "");
  return lines;
}

std::vector<StepMetrics> metrics_of(const std::filesystem::path& run) {
  std::vector<StepMetrics> steps;
  for (const std::string& line : lines_of(run / "metrics.jsonl")) steps.push_back(parse_step_metrics(line));
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

// Infinity where a tensor is zero on one side, or a number is none.
double apart(std::span<const double> right, std::span<const double> found) {
  double most = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double difference = std::abs(right[i] - found[i]);
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    most = std::max(most, difference);
  }
  return most == 0 ? 0 : most / largest(right);
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

// Compares tensors of two checkpoints, and keeps what differs first.
class Comparison {
 public:
  Comparison(const std::filesystem::path& one, const std::filesystem::path& other, const Compared& compared,
             Differences& result)
      : right_(one), found_(other), compared_(compared), result_(result) {}

  // `factor`: of what is found, before it is compared.
  double compare(const std::string& name, double bound, double right_factor = 1, double found_factor = 1) {
    const checkpoint::TensorRecord* right = right_.manifest().find(name);
    const checkpoint::TensorRecord* found = found_.manifest().find(name);
    if (right == nullptr) return 0;
    ++result_.tensors;
    if (found == nullptr || found->shape != right->shape) {
      find(name + " is missing, or has another shape");
      return std::numeric_limits<double>::infinity();
    }
    Numbers a = read_tensor(right_, *right), b = read_tensor(found_, *found);
    for (double& number : a) number *= right_factor;
    for (double& number : b) number *= found_factor;
    const double difference = apart(a, b);
    if (!(difference <= bound))
      find(
          fmt::format("{}: {:.1e} apart; {}", name, difference, describe_difference(a, b, bound, compared_)));
    return difference;
  }
  // All whose names begin so, but those of parameters, which were compared.
  double compare_others(const std::string& prefix, double bound) {
    double most = 0;
    for (const checkpoint::TensorRecord& tensor : right_.manifest().tensors)
      if (tensor.name.starts_with(prefix) && !is_of_parameter(tensor.name))
        most = std::max(most, compare(tensor.name, bound));
    return most;
  }
  void find(const std::string& finding) {
    if (result_.finding.empty()) result_.finding = finding;
  }

 private:
  bool is_of_parameter(const std::string& name) const {
    return std::any_of(compared_.parameters.begin(), compared_.parameters.end(),
                       [&](const std::string& parameter) { return name == "model/" + parameter; });
  }

  checkpoint::Reader right_, found_;
  const Compared& compared_;
  Differences& result_;
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
  if (std::isfinite(factor) && left_over < 1e-9 * largest(found))
    return fmt::format("every element is {:.6g} times what it should be{}", factor,
                       cause_of(factor, compared));
  return fmt::format("{} of {} elements differ, from {} to {} of the flattened tensor", count, right.size(),
                     first, last);
}

Differences differences(const std::filesystem::path& one, const std::filesystem::path& other,
                        const Compared& compared, const Bounds& bounds) {
  Differences result;
  const std::vector<StepMetrics> right = metrics_of(one), found = metrics_of(other);
  const double of_right = clip_of(right[0], compared.max_norm) / (1 - compared.beta1),
               of_found = clip_of(found[0], compared.max_norm) / (1 - compared.beta1);
  Comparison first(saved(one, 1), saved(other, 1), compared, result);
  for (const std::string& parameter : compared.parameters)
    result.gradients =
        std::max(result.gradients, first.compare(kMoments + parameter, bounds.gradients, of_right, of_found));
  if (result.tensors != compared.parameters.size())
    throw Error(ExitCode::data, "the optimizer has no first moments (optimizer/exp_avg.*) to tell gradients");

  for (std::size_t i = 0; i < right.size(); ++i) {
    const auto look_at = [&](const char* name, double a, double b, double& most) {
      const double difference = apart(a, b);
      most = std::max(most, difference);
      if (!(difference <= (i == 0 ? bounds.gradients : bounds.state)))
        first.find(fmt::format("{} of step {}: {} instead of {}, {:.6g} times what it should be{}", name,
                               right[i].step, b, a, b / a, cause_of(b / a, compared)));
    };
    look_at("loss", right[i].loss, found[i].loss, result.loss);
    look_at("grad_norm", right[i].grad_norm, found[i].grad_norm, result.grad_norm);
  }
  if (lines_of(one / "expert_load.jsonl") != lines_of(other / "expert_load.jsonl"))
    first.find("tokens went to other experts: expert_load.jsonl differs");

  Comparison last(saved(one, kProofSteps), saved(other, kProofSteps), compared, result);
  for (const std::string& parameter : compared.parameters)
    result.parameters = std::max(result.parameters, last.compare("model/" + parameter, bounds.state));
  result.state =
      std::max(last.compare_others("model/", bounds.state), last.compare_others("optimizer/", bounds.state));
  return result;
}

}  // namespace rondo

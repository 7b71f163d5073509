// Tensors are updated in chunks, each by one thread, in a loop that the compiler vectorizes.
#include "ops/adamw/adamw.h"

#include <torch/library.h>

#include <span>
#include <string>
#include <type_traits>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/tensor_chunks.h"
#include "ops/kernel/with_dtype.h"
#include "ops/random/rounding.h"
#include "support/error.h"

namespace rondo {
namespace {

using adam::kChunk;
using at::Tensor, at::TensorList;
using Tensors = std::vector<Tensor>;

template <class T, class Moment, class Gradient>
struct Run {
  T* parameter;
  Moment *exp_avg, *exp_avg_sq;
  const Gradient* gradient;
  std::int64_t count;

  Run part(std::int64_t first, std::int64_t elements) const {
    return {parameter + first, exp_avg + first, exp_avg_sq + first, gradient + first, elements};
  }
};

template <class T, class Moment, class Gradient, class Rounding>
void update(adam::FactorsIn<SumOf<T>> f, Run<T, Moment, Gradient> run, Rounding rounding) {
  using Real = SumOf<T>;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < run.count; ++i) {
    const auto now =
        adam::updated<Real>(f,
                            {static_cast<Real>(run.parameter[i]), static_cast<Real>(run.exp_avg[i]),
                             static_cast<Real>(run.exp_avg_sq[i])},
                            static_cast<Real>(run.gradient[i]) / f.gradient_scale);
    run.parameter[i] = rounding.template round<T>(adam::kParameter, i, now.parameter);
    run.exp_avg[i] = rounding.template round<Moment>(adam::kExpAvg, i, now.exp_avg);
    run.exp_avg_sq[i] = rounding.template round<Moment>(adam::kExpAvgSq, i, now.exp_avg_sq);
  }
}

template <class T>
std::span<const std::uint32_t> rounded_kinds() {
  static constexpr std::uint32_t kKinds[] = {adam::kParameter, adam::kExpAvg, adam::kExpAvgSq};
  return std::span(kKinds).subspan(std::is_same_v<T, at::BFloat16> ? 0 : 1);
}

// Calls f with an element of each type: moments and gradients have the parameter's type, or bf16.
template <class F>
void with_types(const Tensor& parameter, const Tensor& moments, const Tensor& gradient, const F& f) {
  with_dtype(parameter, "adamw", [&](auto type) {
    const auto or_bf16 = [&](const Tensor& tensor, const auto& use) {
      tensor.scalar_type() == at::kBFloat16 ? use(at::BFloat16()) : use(type);
    };
    or_bf16(moments, [&](auto of_moments) {
      or_bf16(gradient, [&](auto of_gradient) { f(type, of_moments, of_gradient); });
    });
  });
}

void adamw_cpu_(TensorList parameters, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList gradients,
                const Tensor& step, const Tensor& learning_rate, const Tensor& gradient_scale,
                const Tensor& found_inf, double beta1, double beta2, double eps, double weight_decay,
                bool decoupled_weight_decay, at::IntArrayRef rounding) {
  check_adamw({parameters, exp_avgs, exp_avg_sqs, gradients, step, learning_rate, gradient_scale, found_inf,
               rounding});
  if (number(found_inf) != 0) return;
  const Tensors contiguous = contiguous_of(gradients);
  const std::vector<TensorChunk> chunks = tensor_chunks(parameters, kChunk);
  for_each_chunk_of(chunks, [&](std::size_t i) {
    const TensorChunk& chunk = chunks[i];
    const Tensor &parameter = parameters[chunk.tensor], &gradient = contiguous[chunk.tensor];
    const Tensor &exp_avg = exp_avgs[chunk.tensor], &exp_avg_sq = exp_avg_sqs[chunk.tensor];
    with_types(parameter, exp_avg, gradient, [&](auto type, auto of_moments, auto of_gradient) {
      using T = decltype(type);
      using Moment = decltype(of_moments);
      using Gradient = decltype(of_gradient);
      const auto factors =
          adam::factors<SumOf<T>>({decoupled_weight_decay, beta1, beta2, eps, weight_decay}, number(step),
                                  number(learning_rate), number(gradient_scale));
      const Run<T, Moment, Gradient> run{parameter.mutable_data_ptr<T>() + chunk.first,
                                         exp_avg.mutable_data_ptr<Moment>() + chunk.first,
                                         exp_avg_sq.mutable_data_ptr<Moment>() + chunk.first,
                                         gradient.const_data_ptr<Gradient>() + chunk.first, chunk.count};
      // Moments are bf16 wherever a parameter is.
      walk_rounded<Moment>(run, chunk, rounding, number(step), rounded_kinds<T>(),
                           [&](const auto& part, const auto& way) { update(factors, part, way); });
    });
  });
}

void adamw_meta_(TensorList parameters, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList gradients,
                 const Tensor& step, const Tensor& learning_rate, const Tensor& gradient_scale,
                 const Tensor& found_inf, double, double, double, double, bool, at::IntArrayRef rounding) {
  check_adamw({parameters, exp_avgs, exp_avg_sqs, gradients, step, learning_rate, gradient_scale, found_inf,
               rounding});
}

// For every device: updates copies.
AdamWResults adamw_of_copies(TensorList parameters, TensorList exp_avgs, TensorList exp_avg_sqs,
                             TensorList gradients, const Tensor& step, const Tensor& learning_rate,
                             const Tensor& gradient_scale, const Tensor& found_inf, double beta1,
                             double beta2, double eps, double weight_decay, bool decoupled_weight_decay,
                             at::IntArrayRef rounding) {
  AdamWResults results{clones_of(parameters), clones_of(exp_avgs), clones_of(exp_avg_sqs)};
  adamw_({std::get<0>(results), std::get<1>(results), std::get<2>(results), gradients, step, learning_rate,
          gradient_scale, found_inf, rounding},
         {decoupled_weight_decay, beta1, beta2, eps, weight_decay});
  return results;
}

template <class Kernel>
auto call_op(const char* name, Kernel*, const AdamWOperands& x, const AdamWOptions& o) {
  static const auto handle = op_handle<Kernel>(name);
  return handle.call(x.parameters, x.exp_avgs, x.exp_avg_sqs, x.gradients, x.step, x.learning_rate,
                     x.gradient_scale, x.found_inf, o.beta1, o.beta2, o.eps, o.weight_decay,
                     o.decoupled_weight_decay, x.rounding);
}

}  // namespace

void adamw_(const AdamWOperands& operands, const AdamWOptions& options) {
  call_op("rondo::adamw_", &adamw_cpu_, operands, options);
}
AdamWResults adamw(const AdamWOperands& operands, const AdamWOptions& options) {
  return call_op("rondo::adamw", &adamw_of_copies, operands, options);
}

void check_adamw(const AdamWOperands& x) {
  const std::size_t count = x.parameters.size();
  RONDO_ASSERT(x.exp_avgs.size() == count && x.exp_avg_sqs.size() == count && x.gradients.size() == count,
               "adamw: the lists differ in length");
  for (std::size_t k = 0; k < count; ++k) {
    const Tensor& parameter = x.parameters[k];
    check_float("adamw", "a parameter", parameter);
    // May be bf16 with an f32 parameter if `other` is bf16.
    const auto like_parameter = [&](const char* name, const Tensor& tensor, const Tensor& other) {
      const bool narrow = other.scalar_type() == at::kBFloat16 && parameter.scalar_type() == at::kFloat;
      check_operand("adamw", name, tensor, parameter.sizes(),
                    narrow ? at::kBFloat16 : parameter.scalar_type());
    };
    like_parameter("an exp_avg", x.exp_avgs[k], x.exp_avgs[k]);
    like_parameter("an exp_avg_sq", x.exp_avg_sqs[k], x.exp_avgs[k]);
    like_parameter("a gradient", x.gradients[k], x.gradients[k]);
    RONDO_ASSERT(
        parameter.is_contiguous() && x.exp_avgs[k].is_contiguous() && x.exp_avg_sqs[k].is_contiguous(),
        "adamw: overwritten tensors must be contiguous");
  }
  check_operand("adamw", "step", x.step, {}, at::kFloat);
  check_operand("adamw", "learning_rate", x.learning_rate, {}, at::kFloat);
  check_operand("adamw", "gradient_scale", x.gradient_scale, {}, at::kFloat);
  check_operand("adamw", "found_inf", x.found_inf, {}, at::kFloat);
  check_rounding("adamw", x.rounding, count);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  const std::string rest =
      "Tensor[] gradients, Tensor step, Tensor learning_rate, Tensor gradient_scale, Tensor found_inf, "
      "float beta1, float beta2, float eps, float weight_decay, bool decoupled_weight_decay, "
      "int[] rounding=[]) -> ";
  m.def(("adamw(Tensor[] parameters, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, " + rest +
         "(Tensor[] parameters, Tensor[] exp_avgs, Tensor[] exp_avg_sqs)")
            .c_str());
  m.def(("adamw_(Tensor(a!)[] parameters, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, " + rest + "()")
            .c_str());
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("adamw_", &adamw_meta_); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("adamw_", &adamw_cpu_); }
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) { m.impl("adamw", &adamw_of_copies); }

}  // namespace rondo

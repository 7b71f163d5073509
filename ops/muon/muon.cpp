// Tensors are walked in chunks, each by one thread, in a loop that the compiler vectorizes.
#include "ops/muon/muon.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <type_traits>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/tensor_chunks.h"
#include "ops/kernel/with_dtype.h"
#include "ops/random/rounding.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor, at::TensorList;
using Tensors = std::vector<Tensor>;

constexpr std::uint32_t kOfParameter[] = {muon::kParameter}, kOfMomentum[] = {muon::kMomentum};

template <class Momentum, class Gradient, class Update>
struct MomentumRun {
  Momentum* momentum;
  const Gradient* gradient;
  Update* update;
  std::int64_t count;

  MomentumRun part(std::int64_t first, std::int64_t elements) const {
    return {momentum + first, gradient + first, update + first, elements};
  }
};

template <class Momentum, class Gradient, class Update, class Rounding>
void accumulate(const muon::MomentumFactors<SumOf<Momentum>>& f, MomentumRun<Momentum, Gradient, Update> run,
                Rounding rounding) {
  using Real = SumOf<Momentum>;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < run.count; ++i) {
    const auto now = muon::accumulated<Real>(f, static_cast<Real>(run.momentum[i]),
                                             static_cast<Real>(run.gradient[i]) / f.gradient_scale);
    run.momentum[i] = rounding.template round<Momentum>(muon::kMomentum, i, now.momentum);
    run.update[i] = static_cast<Update>(now.update);
  }
}

template <class Parameter, class Update>
struct ApplyRun {
  Parameter* parameter;
  const Update* update;
  std::int64_t count;

  ApplyRun part(std::int64_t first, std::int64_t elements) const {
    return {parameter + first, update + first, elements};
  }
};

template <class Parameter, class Update, class Rounding>
void apply(const muon::ApplyFactors<SumOf<Parameter>>& f, ApplyRun<Parameter, Update> run,
           Rounding rounding) {
  using Real = SumOf<Parameter>;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < run.count; ++i) {
    const Real now =
        muon::applied<Real>(f, static_cast<Real>(run.parameter[i]), static_cast<Real>(run.update[i]));
    run.parameter[i] = rounding.template round<Parameter>(muon::kParameter, i, now);
  }
}

// Calls f with an element of a tensor that is beside one with elements of type T.
template <class T, class F>
void with_dtype_beside(T, const Tensor& tensor, const F& f) {
  if constexpr (std::is_same_v<T, double>)
    f(double());
  else
    tensor.scalar_type() == at::kBFloat16 ? f(at::BFloat16()) : f(float());
}

Tensors muon_momentum_cpu_(TensorList momentums, TensorList gradients, const Tensor& gradient_scale,
                           const Tensor& found_inf, const Tensor& step, at::IntArrayRef rounding,
                           double momentum, bool nesterov, at::ScalarType dtype) {
  Tensors updates =
      unset_muon_updates({momentums, gradients, gradient_scale, found_inf, step, rounding}, dtype);
  if (number(found_inf) != 0) {
    for (const Tensor& update : updates) update.zero_();
    return updates;
  }
  const Tensors contiguous = contiguous_of(gradients);
  const std::vector<TensorChunk> chunks = tensor_chunks(momentums, muon::kChunk);
  for_each_chunk_of(chunks, [&](std::size_t i) {
    const TensorChunk& chunk = chunks[i];
    const Tensor &state = momentums[chunk.tensor], &gradient = contiguous[chunk.tensor],
                 &update = updates[chunk.tensor];
    with_dtype(state, "muon_momentum", [&](auto type) {
      with_dtype_beside(type, gradient, [&](auto of_gradient) {
        with_dtype_beside(type, update, [&](auto of_update) {
          using Momentum = decltype(type);
          using Gradient = decltype(of_gradient);
          using Update = decltype(of_update);
          const muon::MomentumFactors<SumOf<Momentum>> factors({momentum, nesterov}, number(gradient_scale));
          const MomentumRun<Momentum, Gradient, Update> run{state.mutable_data_ptr<Momentum>() + chunk.first,
                                                            gradient.const_data_ptr<Gradient>() + chunk.first,
                                                            update.mutable_data_ptr<Update>() + chunk.first,
                                                            chunk.count};
          walk_rounded<Momentum>(run, chunk, rounding, number(step), kOfMomentum,
                                 [&](const auto& part, const auto& way) { accumulate(factors, part, way); });
        });
      });
    });
  });
  return updates;
}

void muon_apply_cpu_(TensorList parameters, TensorList updates, const Tensor& learning_rate,
                     const Tensor& found_inf, const Tensor& step, at::IntArrayRef rounding,
                     double weight_decay, at::ArrayRef<double> scales) {
  check_muon_apply({parameters, updates, learning_rate, found_inf, step, rounding}, scales);
  if (number(found_inf) != 0) return;
  const Tensors contiguous = contiguous_of(updates);
  const std::vector<TensorChunk> chunks = tensor_chunks(parameters, muon::kChunk);
  for_each_chunk_of(chunks, [&](std::size_t i) {
    const TensorChunk& chunk = chunks[i];
    const Tensor &parameter = parameters[chunk.tensor], &update = contiguous[chunk.tensor];
    with_dtype(parameter, "muon_apply", [&](auto type) {
      with_dtype_beside(type, update, [&](auto of_update) {
        using Parameter = decltype(type);
        using Update = decltype(of_update);
        const muon::ApplyFactors<SumOf<Parameter>> factors(weight_decay, scales[chunk.tensor],
                                                           number(learning_rate));
        const ApplyRun<Parameter, Update> run{parameter.mutable_data_ptr<Parameter>() + chunk.first,
                                              update.const_data_ptr<Update>() + chunk.first, chunk.count};
        walk_rounded<Parameter>(run, chunk, rounding, number(step), kOfParameter,
                                [&](const auto& part, const auto& way) { apply(factors, part, way); });
      });
    });
  });
}

Tensors muon_momentum_meta_(TensorList momentums, TensorList gradients, const Tensor& gradient_scale,
                            const Tensor& found_inf, const Tensor& step, at::IntArrayRef rounding, double,
                            bool, at::ScalarType dtype) {
  return unset_muon_updates({momentums, gradients, gradient_scale, found_inf, step, rounding}, dtype);
}
void muon_apply_meta_(TensorList parameters, TensorList updates, const Tensor& learning_rate,
                      const Tensor& found_inf, const Tensor& step, at::IntArrayRef rounding, double,
                      at::ArrayRef<double> scales) {
  check_muon_apply({parameters, updates, learning_rate, found_inf, step, rounding}, scales);
}

// Copy the state and call the in-place forms on the copies, on every device.
std::tuple<Tensors, Tensors> muon_momentum_of_copies(TensorList momentums, TensorList gradients,
                                                     const Tensor& gradient_scale, const Tensor& found_inf,
                                                     const Tensor& step, at::IntArrayRef rounding,
                                                     double momentum, bool nesterov, at::ScalarType dtype) {
  Tensors copies = clones_of(momentums);
  Tensors updates = muon_momentum_({copies, gradients, gradient_scale, found_inf, step, rounding},
                                   {momentum, nesterov}, dtype);
  return {std::move(copies), std::move(updates)};
}
Tensors muon_apply_of_copies(TensorList parameters, TensorList updates, const Tensor& learning_rate,
                             const Tensor& found_inf, const Tensor& step, at::IntArrayRef rounding,
                             double weight_decay, at::ArrayRef<double> scales) {
  Tensors copies = clones_of(parameters);
  muon_apply_({copies, updates, learning_rate, found_inf, step, rounding}, weight_decay, scales);
  return copies;
}

template <class Kernel>
auto call_momentum(const char* name, Kernel*, const MuonMomentumOperands& x, const MuonOptions& options,
                   at::ScalarType dtype) {
  static const auto handle = op_handle<Kernel>(name);
  return handle.call(x.momentums, x.gradients, x.gradient_scale, x.found_inf, x.step, x.rounding,
                     options.momentum, options.nesterov, dtype);
}
template <class Kernel>
auto call_apply(const char* name, Kernel*, const MuonApplyOperands& x, double weight_decay,
                at::ArrayRef<double> scales) {
  static const auto handle = op_handle<Kernel>(name);
  return handle.call(x.parameters, x.updates, x.learning_rate, x.found_inf, x.step, x.rounding, weight_decay,
                     scales);
}

bool is_narrow(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16; }

// Requires a tensor of the same shape and dtype. f32 and bf16 may be mixed.
void check_beside(const char* op, const char* name, const Tensor& tensor, const Tensor& overwritten) {
  const bool mixed = is_narrow(tensor.scalar_type()) && is_narrow(overwritten.scalar_type());
  check_operand(op, name, tensor, overwritten.sizes(),
                mixed ? tensor.scalar_type() : overwritten.scalar_type());
  RONDO_ASSERT(overwritten.is_contiguous(), std::string(op) + ": overwritten tensors must be contiguous");
}

}  // namespace

Tensors muon_momentum_(const MuonMomentumOperands& operands, const MuonOptions& options,
                       at::ScalarType dtype) {
  return call_momentum("rondo::muon_momentum_", &muon_momentum_cpu_, operands, options, dtype);
}
std::pair<Tensors, Tensors> muon_momentum(const MuonMomentumOperands& operands, const MuonOptions& options,
                                          at::ScalarType dtype) {
  auto [momentums, updates] =
      call_momentum("rondo::muon_momentum", &muon_momentum_of_copies, operands, options, dtype);
  return {std::move(momentums), std::move(updates)};
}
void muon_apply_(const MuonApplyOperands& operands, double weight_decay, at::ArrayRef<double> scales) {
  call_apply("rondo::muon_apply_", &muon_apply_cpu_, operands, weight_decay, scales);
}
Tensors muon_apply(const MuonApplyOperands& operands, double weight_decay, at::ArrayRef<double> scales) {
  return call_apply("rondo::muon_apply", &muon_apply_of_copies, operands, weight_decay, scales);
}

Tensors unset_muon_updates(const MuonMomentumOperands& x, at::ScalarType dtype) {
  const char* const op = "muon_momentum";
  RONDO_ASSERT(x.momentums.size() == x.gradients.size(), "muon_momentum: the lists differ in length");
  Tensors updates;
  for (std::size_t k = 0; k < x.momentums.size(); ++k) {
    const Tensor &momentum = x.momentums[k], &gradient = x.gradients[k];
    check_float(op, "a momentum", momentum);
    check_beside(op, "a gradient", gradient, momentum);
    RONDO_ASSERT(momentum.scalar_type() == at::kDouble ? dtype == at::kDouble : is_narrow(dtype),
                 std::string("muon_momentum: updates in ") + c10::toString(dtype) + " beside momentums in " +
                     c10::toString(momentum.scalar_type()));
    updates.push_back(at::empty(gradient.sizes(), gradient.options().dtype(dtype)));
  }
  check_operand(op, "gradient_scale", x.gradient_scale, {}, at::kFloat);
  check_operand(op, "found_inf", x.found_inf, {}, at::kFloat);
  check_operand(op, "step", x.step, {}, at::kFloat);
  check_rounding(op, x.rounding, x.momentums.size());
  return updates;
}

void check_muon_apply(const MuonApplyOperands& x, at::ArrayRef<double> scales) {
  const char* const op = "muon_apply";
  RONDO_ASSERT(x.parameters.size() == x.updates.size() && x.parameters.size() == scales.size(),
               "muon_apply: the lists differ in length");
  for (std::size_t k = 0; k < x.parameters.size(); ++k) {
    check_float(op, "a parameter", x.parameters[k]);
    check_beside(op, "an update", x.updates[k], x.parameters[k]);
  }
  check_operand(op, "learning_rate", x.learning_rate, {}, at::kFloat);
  check_operand(op, "found_inf", x.found_inf, {}, at::kFloat);
  check_operand(op, "step", x.step, {}, at::kFloat);
  check_rounding(op, x.rounding, x.parameters.size());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  const std::string of_momentum =
      "Tensor[] gradients, Tensor gradient_scale, Tensor found_inf, Tensor step, int[] rounding, "
      "float momentum, bool nesterov, ScalarType dtype) -> ";
  m.def(("muon_momentum(Tensor[] momentums, " + of_momentum + "(Tensor[] momentums, Tensor[] updates)")
            .c_str());
  m.def(("muon_momentum_(Tensor(a!)[] momentums, " + of_momentum + "Tensor[]").c_str());
  const std::string of_apply =
      "Tensor[] updates, Tensor learning_rate, Tensor found_inf, Tensor step, int[] rounding, "
      "float weight_decay, float[] scales) -> ";
  m.def(("muon_apply(Tensor[] parameters, " + of_apply + "Tensor[]").c_str());
  m.def(("muon_apply_(Tensor(a!)[] parameters, " + of_apply + "()").c_str());
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("muon_momentum_", &muon_momentum_meta_);
  m.impl("muon_apply_", &muon_apply_meta_);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("muon_momentum_", &muon_momentum_cpu_);
  m.impl("muon_apply_", &muon_apply_cpu_);
}
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) {
  m.impl("muon_momentum", &muon_momentum_of_copies);
  m.impl("muon_apply", &muon_apply_of_copies);
}

}  // namespace rondo

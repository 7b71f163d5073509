#include "ops/muon/muon_cuda.h"

#include <torch/library.h>

#include <map>
#include <vector>

#include "ops/kernel/launch.h"
#include "ops/muon/muon.h"
#include "ops/random/rounding.h"

namespace rondo {
namespace {

using at::Tensor, at::TensorList;

std::vector<Tensor> muon_momentum_cuda_(TensorList momentums, TensorList gradients,
                                        const Tensor& gradient_scale, const Tensor& found_inf,
                                        const Tensor& step, at::IntArrayRef rounding, double momentum,
                                        bool nesterov, at::ScalarType dtype) {
  std::vector<Tensor> updates =
      unset_muon_updates({momentums, gradients, gradient_scale, found_inf, step, rounding}, dtype);
  const cuda::Launch launch(step, "muon_momentum");
  std::vector<Tensor> contiguous;  // alive until the launches
  std::map<cuda::MomentumElements, std::vector<cuda::RoundedMomentumTensor>> by_elements;
  for (std::size_t k = 0; k < momentums.size(); ++k) {
    const Tensor& gradient = contiguous.emplace_back(gradients[k].contiguous());
    by_elements[{launch.element(momentums[k]), launch.element(gradient), launch.element(updates[k])}]
        .push_back({{momentums[k].mutable_data_ptr(), gradient.const_data_ptr(),
                     updates[k].mutable_data_ptr(), gradient.numel()},
                    rounding.empty() ? RoundingDraws() : rounding_draws(rounding, k)});
  }
  const cuda::MomentumScalars scalars{gradient_scale.const_data_ptr<float>(),
                                      found_inf.const_data_ptr<float>(), step.const_data_ptr<float>()};
  for (const auto& [elements, tensors] : by_elements) {
    if (rounding.empty() || elements.momentum != cuda::Element::bf16)
      cuda::muon_momentum(elements, std::vector<cuda::MomentumTensor>(tensors.begin(), tensors.end()),
                          scalars, {momentum, nesterov}, launch.stream());
    else
      cuda::muon_momentum(elements, tensors, scalars, {momentum, nesterov}, launch.stream());
  }
  launch.check();
  return updates;
}

void muon_apply_cuda_(TensorList parameters, TensorList updates, const Tensor& learning_rate,
                      const Tensor& found_inf, const Tensor& step, at::IntArrayRef rounding,
                      double weight_decay, at::ArrayRef<double> scales) {
  check_muon_apply({parameters, updates, learning_rate, found_inf, step, rounding}, scales);
  const cuda::Launch launch(step, "muon_apply");
  std::vector<Tensor> contiguous;  // alive until the launches
  std::map<cuda::AppliedElements, std::vector<cuda::RoundedAppliedTensor>> by_elements;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Tensor& update = contiguous.emplace_back(updates[k].contiguous());
    by_elements[{launch.element(parameters[k]), launch.element(update)}].push_back(
        {{parameters[k].mutable_data_ptr(), update.const_data_ptr(), update.numel(), scales[k]},
         rounding.empty() ? RoundingDraws() : rounding_draws(rounding, k)});
  }
  const cuda::AppliedScalars scalars{learning_rate.const_data_ptr<float>(), found_inf.const_data_ptr<float>(),
                                     step.const_data_ptr<float>()};
  for (const auto& [elements, tensors] : by_elements) {
    if (rounding.empty() || elements.parameter != cuda::Element::bf16)
      cuda::muon_apply(elements, std::vector<cuda::AppliedTensor>(tensors.begin(), tensors.end()), scalars,
                       weight_decay, launch.stream());
    else
      cuda::muon_apply(elements, tensors, scalars, weight_decay, launch.stream());
  }
  launch.check();
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("muon_momentum_", &muon_momentum_cuda_);
  m.impl("muon_apply_", &muon_apply_cuda_);
}

}  // namespace rondo

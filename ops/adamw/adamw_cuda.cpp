#include "ops/adamw/adamw_cuda.h"

#include <torch/library.h>

#include <map>
#include <vector>

#include "ops/adamw/adamw.h"
#include "ops/kernel/launch.h"
#include "ops/random/rounding.h"

namespace rondo {
namespace {

using at::Tensor, at::TensorList;

void adamw_cuda_(TensorList parameters, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList gradients,
                 const Tensor& step, const Tensor& learning_rate, const Tensor& gradient_scale,
                 const Tensor& found_inf, double beta1, double beta2, double eps, double weight_decay,
                 bool decoupled_weight_decay, at::IntArrayRef rounding) {
  check_adamw({parameters, exp_avgs, exp_avg_sqs, gradients, step, learning_rate, gradient_scale, found_inf,
               rounding});
  const cuda::Launch launch(step, "adamw");
  std::vector<Tensor> contiguous;  // alive until the launches
  std::map<cuda::UpdatedElements, std::vector<cuda::RoundedTensor>> by_elements;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Tensor& gradient = contiguous.emplace_back(gradients[k].contiguous());
    by_elements[{launch.element(parameters[k]), launch.element(exp_avgs[k]), launch.element(gradient)}]
        .push_back({{parameters[k].mutable_data_ptr(), exp_avgs[k].mutable_data_ptr(),
                     exp_avg_sqs[k].mutable_data_ptr(), gradient.const_data_ptr(), gradient.numel()},
                    rounding.empty() ? RoundingDraws() : rounding_draws(rounding, k)});
  }
  const cuda::AdamWScalars scalars{step.const_data_ptr<float>(), learning_rate.const_data_ptr<float>(),
                                   gradient_scale.const_data_ptr<float>(), found_inf.const_data_ptr<float>()};
  const AdamWOptions options{decoupled_weight_decay, beta1, beta2, eps, weight_decay};
  for (const auto& [elements, tensors] : by_elements) {
    if (rounding.empty() || elements.moments != cuda::Element::bf16)
      cuda::adamw(elements, std::vector<cuda::UpdatedTensor>(tensors.begin(), tensors.end()), scalars,
                  options, launch.stream());
    else
      cuda::adamw(elements, tensors, scalars, options, launch.stream());
  }
  launch.check();
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("adamw_", &adamw_cuda_); }

}  // namespace rondo

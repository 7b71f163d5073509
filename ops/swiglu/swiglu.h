// The gated unit of SwiGLU (Shazeer 2020, arXiv 2002.05202) as one op for each direction:
//
//   rondo::swiglu(gate, up) -> gate * sigmoid(gate) * up
//   rondo::swiglu_backward(grad, gate, up) -> (grad_gate, grad_up)
//
// All of one size and of one dtype, f32 or bf16; results are contiguous. All arithmetic is f32, and results are
// rounded once. Neither op has a formula for autograd: passes put them into graphs that have their backward already.
#pragma once

#include <cmath>

#include "ops/kernel/device.h"

namespace rondo::swiglu {

RONDO_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

RONDO_DEVICE inline float forward(float gate, float up) { return gate * sigmoid(gate) * up; }

struct Gradients {
  float gate, up;
};
RONDO_DEVICE inline Gradients backward(float grad, float gate, float up) {
  const float s = sigmoid(gate);
  return {grad * up * s * (1.0f + gate * (1.0f - s)), grad * gate * s};
}

}  // namespace rondo::swiglu

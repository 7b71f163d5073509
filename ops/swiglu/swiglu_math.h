// The arithmetic of one element of SwiGLU (ops/swiglu/swiglu.h): what CPU and CUDA share. No LibTorch.
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

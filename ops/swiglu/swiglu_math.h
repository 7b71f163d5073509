// The arithmetic of one element of SwiGLU (ops/swiglu/swiglu.h), shared by CPU and CUDA. No
// LibTorch.
#pragma once

#include "ops/kernel/device.h"
#include "ops/kernel/exponential.h"

namespace rondo::swiglu {

// T: float or double.
template <class T>
RONDO_DEVICE inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

template <class T>
RONDO_DEVICE inline T forward(T gate, T up) {
  return gate * sigmoid(gate) * up;
}

template <class T>
struct Gradients {
  T gate, up;
};
template <class T>
RONDO_DEVICE inline Gradients<T> backward(T grad, T gate, T up) {
  const T s = sigmoid(gate);
  return {grad * up * s * (T(1) + gate * (T(1) - s)), grad * gate * s};
}

}  // namespace rondo::swiglu

// The arithmetic of one element of SwiGLU (ops/swiglu/swiglu.h) and of its clamped form
// (ops/swiglu/clamped_swiglu.h), shared by CPU and CUDA. No LibTorch.
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

// Clamps both values, and has the slope of the sigmoid. Keeps nans.
template <class T>
struct Clamp {
  T limit, slope;
  RONDO_DEVICE T gate(T x) const { return x > limit ? limit : x; }
  RONDO_DEVICE T up(T x) const { return x < -limit ? -limit : gate(x); }
};
template <class T>
RONDO_DEVICE inline T forward(T gate, T up, const Clamp<T>& clamp) {
  const T g = clamp.gate(gate);
  return (clamp.up(up) + T(1)) * (g * sigmoid(clamp.slope * g));
}
template <class T>
RONDO_DEVICE inline Gradients<T> backward(T grad, T gate, T up, const Clamp<T>& clamp) {
  const T g = clamp.gate(gate), u = clamp.up(up), s = sigmoid(clamp.slope * g);
  const T of_gate = grad * (u + T(1)) * s * (T(1) + clamp.slope * g * (T(1) - s)), of_up = grad * (g * s);
  return {gate > clamp.limit ? T(0) : of_gate, up > clamp.limit || up < -clamp.limit ? T(0) : of_up};
}

}  // namespace rondo::swiglu

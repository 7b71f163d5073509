// A product and a sum with one rounding, for hosts and devices. No LibTorch.
#pragma once

#include <cmath>

#include "ops/kernel/device.h"

namespace rondo {

// Returns a * b + c, rounded once.
RONDO_DEVICE inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
RONDO_DEVICE inline double fused(double a, double b, double c) { return fma(a, b, c); }

}  // namespace rondo

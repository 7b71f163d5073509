// The arithmetic of normal draws (ops/normal_draws/normal_draws.h), for hosts and devices: uniform
// numbers by Philox4x32-10 (ops/random/philox.h) and the quantile of the normal distribution
// (Wichura 1988, AS 241). No LibTorch.
//
// REQUIRES: includers are compiled without contraction of products and sums. Then all operations
// are on integers, casts, and + - * / and sqrt of doubles, which IEEE 754 rounds the same
// everywhere. So bits are equal everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/kernel/device.h"
#include "ops/random/philox.h"

namespace rondo {

// Returns the natural logarithm of a positive normal double: x = m * 2^e with m in [1/sqrt2,
// sqrt2), log m = 2 atanh((m-1)/(m+1)).
RONDO_DEVICE inline double logarithm(double x) {
  std::uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  double exponent = static_cast<double>(static_cast<int>(bits >> 52) - 1023);
  bits = (bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent += 1.0;
  }
  const double z = (m - 1.0) / (m + 1.0);
  const double z2 = z * z;
  double series = 0.0;
  for (int k = 21; k >= 1; k -= 2) series = series * z2 + 1.0 / k;
  return 2.0 * z * series + exponent * 0.6931471805599453;
}

RONDO_DEVICE inline double polynomial(const double (&coefficients)[8], double x) {
  double value = 0.0;
  for (int i = 7; i >= 0; --i) value = value * x + coefficients[i];
  return value;
}

// The quantile of the standard normal distribution for 0 < p < 1, with a relative error of about
// 1e-16 (AS 241, PPND16). It has three formulas: for |p - 0.5| <= 0.425, and for the near and the
// far tails in t = sqrt(-log(min(p, 1 - p))), up to and above 5.
RONDO_DEVICE inline bool is_central(double p) { return p - 0.5 >= -0.425 && p - 0.5 <= 0.425; }

RONDO_DEVICE inline double central_quantile(double p) {
  const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                       1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                       3.3430575583588128105e+4, 2.5090809287301226727e+3};
  const double b[8] = {1.0,
                       4.2313330701600911252e+1,
                       6.8718700749205790830e+2,
                       5.3941960214247511077e+3,
                       2.1213794301586595867e+4,
                       3.9307895800092710610e+4,
                       2.8729085735721942674e+4,
                       5.2264952788528545610e+3};
  const double q = p - 0.5;
  const double r = 0.180625 - q * q;
  return q * polynomial(a, r) / polynomial(b, r);
}

RONDO_DEVICE inline double tail_argument(double p) {
  const double q = p - 0.5;
  return sqrt(-logarithm(q < 0 ? p : 1.0 - p));
}

RONDO_DEVICE inline double near_tail_quantile(double p, double t) {
  const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                       3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                       2.27238449892691845833e-2, 7.74545014278341407640e-4};
  const double d[8] = {1.0,
                       2.05319162663775882187e0,
                       1.67638483018380384940e0,
                       6.89767334985100004550e-1,
                       1.48103976427480074590e-1,
                       1.51986665636164571966e-2,
                       5.47593808499534494600e-4,
                       1.05075007164441684324e-9};
  const double z = polynomial(c, t - 1.6) / polynomial(d, t - 1.6);
  return p - 0.5 < 0 ? -z : z;
}

RONDO_DEVICE inline double far_tail_quantile(double p, double t) {
  const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                       2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                       2.71155556874348757815e-5, 2.01033439929228813265e-7};
  const double f[8] = {1.0,
                       5.99832206555887937690e-1,
                       1.36929880922735805310e-1,
                       1.48753612908506148525e-2,
                       7.86869131145613259100e-4,
                       1.84631831751005468180e-5,
                       1.42151175831644588870e-7,
                       2.04426310338993978564e-15};
  const double z = polynomial(e, t - 5.0) / polynomial(f, t - 5.0);
  return p - 0.5 < 0 ? -z : z;
}

RONDO_DEVICE inline double normal_quantile(double p) {
  if (is_central(p)) return central_quantile(p);
  const double t = tail_argument(p);
  return t <= 5.0 ? near_tail_quantile(p, t) : far_tail_quantile(p, t);
}

// Returns an integer below 2^52 as a double. AVX2 has no conversion of 64-bit integers, and a loop
// with one is not vectorized.
RONDO_DEVICE inline double as_double(std::uint64_t integer) {
#ifdef __CUDA_ARCH__
  return static_cast<double>(integer);
#else
  integer |= 0x4330000000000000ull;  // the bits of 2^52 + integer
  double sum;
  memcpy(&sum, &integer, sizeof sum);
  return sum - 0x1p52;
#endif
}

// The draws of one parameter. Truncation maps the uniform number into [cdf(-cut), cdf(cut)] before
// the quantile, as torch does: `low` is the lower bound, `width` the length.
struct NormalDraws {
  double std, low, width;
  std::uint64_t seed, stream;

  // Returns the probability whose quantile is the element at this index of the whole parameter.
  RONDO_DEVICE double probability(std::int64_t index) const {
    const auto counter = static_cast<std::uint64_t>(index);
    const PhiloxWords words =
        philox<10>({{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                     static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                   static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    const std::uint64_t bits =
        (static_cast<std::uint64_t>(words.at[0]) << 20) ^ (words.at[1] >> 12);  // 52 bits
    const double uniform = (as_double(bits) + 0.5) * 0x1p-52;                   // in (0, 1)
    return low + width * uniform;
  }

  // Returns the element at this index of the whole parameter.
  RONDO_DEVICE double at(std::int64_t index) const { return std * normal_quantile(probability(index)); }
};

}  // namespace rondo

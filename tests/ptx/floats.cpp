// Arithmetic of floating-point numbers, and conversions.
//
// All results are those of the ISA, but for two opcodes whose results it only bounds.
// ex2.approx.ftz.f32 rounds 2^x to nearest here; a GPU has an error of up to 2 ulp.
// rcp.approx.ftz.f64 cuts 1/x to its upper 32 bits; a GPU has another error of that size. Kernels
// with the former do not have the bits of a GPU.
#include <algorithm>
#include <cfenv>

#include "tests/ptx/registers.h"

namespace rondo::ptx {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// Ignores a nan; -0 is less than +0.
template <class T>
T maximum(T a, T b) {
  if (a != a) return b;
  if (b != b || a > b) return a;
  return a == b && std::signbit(b) ? a : b;
}
template <class T>
T minimum(T a, T b) {
  return -maximum(-a, -b);
}

u16 to_bf16(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  if (x != x) return 0x7fff;
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Returns the code of the float8 nearest to x, with ties to even and at most kLargest. A nan is
// 0x7f.
template <int kMantissa, int kBias, int kLargest>
u16 to_float8(float x) {
  if (x != x) return 0x7f;
  const int sign = std::signbit(x) ? 0x80 : 0;
  const double magnitude = std::fabs(double{x});
  if (magnitude > std::ldexp(1.0, 16)) return static_cast<u16>(sign | kLargest);
  const int exponent = std::max(magnitude == 0 ? 1 - kBias : std::ilogb(magnitude), 1 - kBias);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, kMantissa - exponent)));
  // The implicit bit of `units`, or a carry, adds to the exponent.
  const int code = units + ((exponent + kBias - 1) << kMantissa);
  return static_cast<u16>(sign | std::min(code, kLargest));
}
template <auto f>
void to_float8_pair(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &high = values(warp, of, 1), &low = values(warp, of, 2);
  for_lanes(lanes,
            [&](int l) { to[l] = static_cast<u64>(f(get<float>(high[l])) << 8 | f(get<float>(low[l]))); });
}

// Rounds toward zero; the nearest integer beyond the range. A nan is 0, or the highest bit of 64.
template <class To>
To truncated(float x) {
  if (x != x) return sizeof(To) == 8 ? static_cast<To>(u64{1} << 63) : To{};
  if (x >= std::ldexp(1.0f, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
  if (x <= static_cast<float>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

float saturated(float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }  // +0 for a nan

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float exp2_near(float x) { return flushed(static_cast<float>(std::exp2(double{flushed(x)}))); }
double reciprocal_near(double x) {
  return std::bit_cast<double>(std::bit_cast<u64>(1 / x) & ~u64{0xffffffff});
}

void fma_rounded_down(Warp& warp, const Instruction& of, Lanes lanes) {
  std::fesetround(FE_DOWNWARD);
  ternary<float, [](float a, float b, float c) { return std::fma(a, b, c); }>(warp, of, lanes);
  std::fesetround(FE_TONEAREST);
}

template <class T>
void add_width(Table& table, const char* type) {
  for (const std::string rounding : {"", ".rn"}) {
    table.add("add" + rounding, {type}, binary<T, T, [](T a, T b) { return a + b; }>);
    table.add("sub" + rounding, {type}, binary<T, T, [](T a, T b) { return a - b; }>);
    table.add("mul" + rounding, {type}, binary<T, T, [](T a, T b) { return a * b; }>);
  }
  table.add("fma.rn", {type}, ternary<T, [](T a, T b, T c) { return std::fma(a, b, c); }>);
  table.add("div.rn", {type}, binary<T, T, [](T a, T b) { return a / b; }>);
  table.add("rcp.rn", {type}, unary<T, T, [](T a) { return T{1} / a; }>);
  table.add("sqrt.rn", {type}, unary<T, T, [](T a) { return std::sqrt(a); }>);
  table.add("neg", {type}, unary<T, T, [](T a) { return -a; }>);
  table.add("abs", {type}, unary<T, T, [](T a) { return std::fabs(a); }>);
  table.add("max", {type}, binary<T, T, maximum<T>>);
  table.add("min", {type}, binary<T, T, minimum<T>>);
  table.add_comparisons<T>({type});
  table.add("setp.ltu", {type}, compare<T, [](T a, T b) { return !(a >= b); }>);
  table.add("setp.leu", {type}, compare<T, [](T a, T b) { return !((a > b)); }>);
  table.add("setp.gtu", {type}, compare<T, [](T a, T b) { return !(a <= b); }>);
  table.add("setp.geu", {type}, compare<T, [](T a, T b) { return !(a < b); }>);
  table.add("setp.neu", {type}, compare<T, [](T a, T b) { return a != b; }>);
  table.add("setp.num", {type}, compare<T, [](T a, T b) { return a == a && b == b; }>);
  table.add("setp.nan", {type}, compare<T, [](T a, T b) { return a != a || b != b; }>);
}

}  // namespace

void add_floats(Table& table) {
  add_width<float>(table, "f32");
  add_width<double>(table, "f64");
  table.add("fma.rm.f32", fma_rounded_down);
  table.add("ex2.approx.ftz.f32", unary<float, float, exp2_near>);
  table.add("rcp.approx.ftz.f64", unary<double, double, reciprocal_near>);

  table.add("cvt.f32.bf16", unary<u32, u16, [](u16 x) { return u32{x} << 16; }>);
  table.add("cvt.rn.bf16.f32", unary<u16, float, to_bf16>);
  table.add("cvt.rn.satfinite.e4m3x2.f32", to_float8_pair<to_float8<3, 7, 0x7e>>);
  table.add("cvt.rn.satfinite.e5m2x2.f32", to_float8_pair<to_float8<2, 15, 0x7b>>);
  table.add("cvt.f64.f32", unary<double, float, [](float x) { return double{x}; }>);
  table.add("cvt.rn.f32.f64", unary<float, double, [](double x) { return static_cast<float>(x); }>);
  table.add("cvt.rn.f32.s32", unary<float, s32, [](s32 x) { return static_cast<float>(x); }>);
  table.add("cvt.rn.f32.s64", unary<float, s64, [](s64 x) { return static_cast<float>(x); }>);
  table.add("cvt.rn.f64.s32", unary<double, s32, [](s32 x) { return static_cast<double>(x); }>);
  table.add("cvt.rn.f64.u64", unary<double, u64, [](u64 x) { return static_cast<double>(x); }>);
  table.add("cvt.rzi.s64.f32", unary<s64, float, truncated<s64>>);
  table.add("cvt.rzi.u32.f32", unary<u32, float, truncated<u32>>);
  table.add("cvt.sat.f32.f32", unary<float, float, saturated>);
}

}  // namespace rondo::ptx

// Arithmetic of integers, moves, selections and predicates.
#include "tests/ptx/registers.h"

namespace rondo::ptx {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class T, bool kRemainder>
void divide(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2);
  for_lanes(lanes, [&](int l) {
    const T x = get<T>(a[l]), by = get<T>(b[l]);
    if (by == 0) fail(warp, of, "a division by zero");
    to[l] = bits_of<T>(kRemainder ? x % by : x / by);
  });
}

template <class T>
T shifted_left(T x, u32 by) {
  return by >= 8 * sizeof(T) ? T{} : static_cast<T>(x << by);
}
template <class T>
T shifted_right(T x, u32 by) {
  constexpr u32 kMax = 8 * sizeof(T) - 1;
  if (by > kMax) return std::is_signed_v<T> ? static_cast<T>(x >> kMax) : T{};
  return static_cast<T>(x >> by);
}
template <class T, auto f>
void shift(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2);
  for_lanes(lanes, [&](int l) { to[l] = bits_of<T>(f(get<T>(a[l]), get<u32>(b[l]))); });
}

// Bytes of {b, a} by the selector's groups of four bits; the fourth bit of a group spreads the
// byte's sign.
u32 permuted(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 pick = selector >> (4 * i) & 15;
    u32 byte = static_cast<u32>(bytes >> (8 * (pick & 7)) & 0xff);
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// Inserts the low `count` bits of a into b, from bit `at`.
void insert_bits(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2), &at = values(warp, of, 3),
             &count = values(warp, of, 4);
  for_lanes(lanes, [&](int l) {
    const u32 first = get<u32>(at[l]) & 0xff;
    const u64 ones = shifted_left<u64>(shifted_left<u64>(1, get<u32>(count[l]) & 0xff) - 1, first);
    to[l] = (b[l] & ~ones) | (shifted_left(a[l], first) & ones);
  });
}

template <class Half, class Whole>
void pack(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &low = values(warp, of, 1), &high = values(warp, of, 2);
  for_lanes(lanes,
            [&](int l) { to[l] = u64{get<Half>(low[l])} | u64{get<Half>(high[l])} << (8 * sizeof(Half)); });
}
template <class Half, class Whole>
void unpack(Warp& warp, const Instruction& of, Lanes lanes) {
  const auto from = values(warp, of, 2);
  auto &low = values(warp, of, 0), &high = values(warp, of, 1);
  for_lanes(lanes, [&](int l) {
    const Whole x = get<Whole>(from[l]);
    low[l] = static_cast<Half>(x), high[l] = static_cast<Half>(x >> (8 * sizeof(Half)));
  });
}

template <class T>
void select(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2);
  const Lanes first = predicate(warp, of, 3);
  for_lanes(lanes, [&](int l) { to[l] = get<T>(first >> l & 1 ? a[l] : b[l]); });
}

void set(Warp& warp, const Instruction& of, Lanes lanes, Lanes result) {
  Lanes& to = predicate(warp, of, 0);
  to = (to & ~lanes) | (result & lanes);
}
template <auto f>
void of_predicates(Warp& warp, const Instruction& of, Lanes lanes) {
  set(warp, of, lanes, f(predicate(warp, of, 1), predicate(warp, of, 2)));
}
void not_predicate(Warp& warp, const Instruction& of, Lanes lanes) {
  set(warp, of, lanes, ~predicate(warp, of, 1));
}
void move_predicate(Warp& warp, const Instruction& of, Lanes lanes) {
  Lanes result = 0;  // from a literal
  const auto& from = values(warp, of, 1);
  for_lanes(lanes, [&](int l) { result |= Lanes{from[l] != 0} << l; });
  set(warp, of, lanes, result);
}

template <class Signed, class Unsigned>
void add_width(Table& table, const char* s, const char* u, const char* b) {
  using U = Unsigned;
  const auto types = {s, u, b};
  table.add("add", types, binary<U, U, [](U x, U y) { return static_cast<U>(x + y); }>);
  table.add("sub", types, binary<U, U, [](U x, U y) { return static_cast<U>(x - y); }>);
  table.add("mul.lo", types, binary<U, U, [](U x, U y) { return static_cast<U>(u64{x} * y); }>);
  table.add("mad.lo", types, ternary<U, [](U x, U y, U z) { return static_cast<U>(u64{x} * y + z); }>);
  table.add("and", types, binary<U, U, [](U x, U y) { return static_cast<U>(x & y); }>);
  table.add("or", types, binary<U, U, [](U x, U y) { return static_cast<U>(x | y); }>);
  table.add("xor", types, binary<U, U, [](U x, U y) { return static_cast<U>(x ^ y); }>);
  table.add("not", types, unary<U, U, [](U x) { return static_cast<U>(~x); }>);
  table.add("neg", {s}, unary<U, U, [](U x) { return static_cast<U>(-u64{x}); }>);
  table.add("mov", types, unary<U, U, [](U x) { return x; }>);
  table.add("selp", types, select<U>);
  table.add("shl", {b}, shift<U, shifted_left<U>>);
  table.add("shr", {u, b}, shift<U, shifted_right<U>>);
  table.add("shr", {s}, shift<Signed, shifted_right<Signed>>);
  table.add("min", {s}, binary<Signed, Signed, [](Signed x, Signed y) { return y < x ? y : x; }>);
  table.add("max", {s}, binary<Signed, Signed, [](Signed x, Signed y) { return x < y ? y : x; }>);
  table.add("min", {u}, binary<U, U, [](U x, U y) { return y < x ? y : x; }>);
  table.add("max", {u}, binary<U, U, [](U x, U y) { return x < y ? y : x; }>);
  table.add("div", {s}, divide<Signed, false>);
  table.add("rem", {s}, divide<Signed, true>);
  table.add("div", {u}, divide<U, false>);
  table.add("rem", {u}, divide<U, true>);
  table.add_comparisons<Signed>({s});
  table.add_comparisons<U>({u, b});
}

}  // namespace

void add_integers(Table& table) {
  add_width<std::int16_t, u16>(table, "s16", "u16", "b16");
  add_width<std::int32_t, u32>(table, "s32", "u32", "b32");
  add_width<std::int64_t, u64>(table, "s64", "u64", "b64");
  // Not as floats: a move keeps the bits of a nan.
  table.add("mov", {"f32"}, unary<u32, u32, [](u32 x) { return x; }>);
  table.add("mov", {"f64"}, unary<u64, u64, [](u64 x) { return x; }>);
  table.add("selp", {"f32"}, select<u32>);
  table.add("selp", {"f64"}, select<u64>);
  table.add("mov.b32.pack", pack<u16, u32>);
  table.add("mov.b64.pack", pack<u32, u64>);
  table.add("mov.b32.unpack", unpack<u16, u32>);
  table.add("mov.b64.unpack", unpack<u32, u64>);

  using s16 = std::int16_t;
  using s32 = std::int32_t;
  using s64 = std::int64_t;
  table.add("mul.wide.u16", binary<u32, u16, [](u16 x, u16 y) { return u32{x} * y; }>);
  table.add("mul.wide.s16", binary<s32, s16, [](s16 x, s16 y) { return s32{x} * y; }>);
  table.add("mul.wide.u32", binary<u64, u32, [](u32 x, u32 y) { return u64{x} * y; }>);
  table.add("mul.wide.s32", binary<s64, s32, [](s32 x, s32 y) { return s64{x} * y; }>);
  table.add("mul.hi.u32", binary<u32, u32, [](u32 x, u32 y) { return static_cast<u32>(u64{x} * y >> 32); }>);
  table.add("popc.b32", unary<u32, u32, [](u32 x) { return static_cast<u32>(std::popcount(x)); }>);
  table.add("prmt.b32", ternary<u32, permuted>);
  table.add("bfi.b64", insert_bits);
  table.add("cvta.to.global.u64", unary<u64, u64, [](u64 x) { return x; }>);
  table.add("cvt.u16.u32", unary<u16, u32, [](u32 x) { return static_cast<u16>(x); }>);
  table.add("cvt.u32.u16", unary<u32, u16, [](u16 x) { return u32{x}; }>);
  table.add("cvt.u32.u64", unary<u32, u64, [](u64 x) { return static_cast<u32>(x); }>);
  table.add("cvt.u64.u32", unary<u64, u32, [](u32 x) { return u64{x}; }>);
  table.add("cvt.s64.s32", unary<s64, s32, [](s32 x) { return s64{x}; }>);

  table.add("and.pred", of_predicates<[](Lanes a, Lanes b) { return a & b; }>);
  table.add("or.pred", of_predicates<[](Lanes a, Lanes b) { return a | b; }>);
  table.add("xor.pred", of_predicates<[](Lanes a, Lanes b) { return a ^ b; }>);
  table.add("not.pred", not_predicate);
  table.add("mov.pred", move_predicate);
}

}  // namespace rondo::ptx

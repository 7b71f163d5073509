// Reads and writes of registers as typed values, lane by lane.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>

#include "tests/ptx/program.h"

namespace rondo::ptx {

template <class T>
T get(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
// Arithmetic on fp32 gives one nan, 0x7fffffff.
template <class T>
std::uint64_t bits_of(T value) {
  if constexpr (std::is_same_v<T, float>)
    return value != value ? 0x7fffffffu : std::bit_cast<std::uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<std::uint64_t>(value);
  else
    return static_cast<std::make_unsigned_t<T>>(value);
}

template <class Body>
void for_lanes(Lanes lanes, const Body& body) {
  if (lanes == ~Lanes{0}) {
    for (int lane = 0; lane < kLanes; ++lane) body(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) body(std::countr_zero(lanes));
}

inline std::array<std::uint64_t, kLanes>& values(Warp& warp, const Instruction& of, int operand) {
  return warp.values[static_cast<std::size_t>(of.slots[static_cast<std::size_t>(operand)])];
}
inline Lanes& predicate(Warp& warp, const Instruction& of, int operand) {
  return warp.predicates[static_cast<std::size_t>(of.slots[static_cast<std::size_t>(operand)])];
}

[[noreturn]] inline void fail(const Warp& warp, const Instruction& at, const std::string& why) {
  throw std::runtime_error("ptx: " + warp.block->kernel->name + ": `" + std::string(at.text) + "`: " + why);
}

// Result = f(operands), for each lane.
template <class To, class From, auto f>
void unary(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto& a = values(warp, of, 1);
  for_lanes(lanes, [&](int l) { to[l] = bits_of<To>(f(get<From>(a[l]))); });
}
template <class To, class From, auto f>
void binary(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2);
  for_lanes(lanes, [&](int l) { to[l] = bits_of<To>(f(get<From>(a[l]), get<From>(b[l]))); });
}
template <class T, auto f>
void ternary(Warp& warp, const Instruction& of, Lanes lanes) {
  auto& to = values(warp, of, 0);
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2), &c = values(warp, of, 3);
  for_lanes(lanes, [&](int l) { to[l] = bits_of<T>(f(get<T>(a[l]), get<T>(b[l]), get<T>(c[l]))); });
}

// Sets the lanes' bits of a predicate to f(operands).
template <class T, auto f>
void compare(Warp& warp, const Instruction& of, Lanes lanes) {
  const auto &a = values(warp, of, 1), &b = values(warp, of, 2);
  Lanes result = 0;
  for_lanes(lanes, [&](int l) { result |= (f(get<T>(a[l]), get<T>(b[l])) ? Lanes{1} : Lanes{0}) << l; });
  Lanes& to = predicate(warp, of, 0);
  to = (to & ~lanes) | result;
}

// Operations by opcode.
class Table {
 public:
  // Under the names of several types: "add" with {"s32", "u32"}.
  void add(const std::string& name, std::initializer_list<const char*> types, Operation operation) {
    for (const char* const type : types) operations_[name + "." + type] = operation;
  }
  void add(const std::string& name, Operation operation) { operations_[name] = operation; }
  template <class T>
  void add_comparisons(std::initializer_list<const char*> types) {
    add("setp.eq", types, compare<T, [](T a, T b) { return a == b; }>);
    add("setp.ne", types, compare<T, [](T a, T b) { return (a < b || a > b); }>);  // false for a nan
    add("setp.lt", types, compare<T, [](T a, T b) { return (a < b); }>);
    add("setp.le", types, compare<T, [](T a, T b) { return (a <= b); }>);
    add("setp.gt", types, compare<T, [](T a, T b) { return (a > b); }>);
    add("setp.ge", types, compare<T, [](T a, T b) { return (a >= b); }>);
  }
  // Returns nullptr for an opcode that is not there.
  Operation find(const std::string& opcode) const {
    const auto it = operations_.find(opcode);
    return it == operations_.end() ? nullptr : it->second;
  }

 private:
  std::unordered_map<std::string, Operation> operations_;
};

void add_integers(Table& table);  // and moves, selections, predicates
void add_floats(Table& table);    // and conversions
void add_exchanges(Table& table);

}  // namespace rondo::ptx

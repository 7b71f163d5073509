// Loads and stores, and exchanges between the lanes of a warp.
#include <optional>

#include "tests/ptx/registers.h"

namespace rondo::ptx {
namespace {

enum class Space { global, shared, local, param };

// Returns where a lane's access is. Throws for what a GPU would refuse, but for global addresses
// that are not mapped.
template <Space kSpace>
std::byte* place(Warp& warp, const Instruction& of, std::uint64_t base, int lane, std::size_t bytes) {
  const std::uint64_t address = base + static_cast<std::uint64_t>(of.displacement);
  if (address % bytes != 0) fail(warp, of, "a misaligned access");
  if constexpr (kSpace == Space::global) return reinterpret_cast<std::byte*>(address);
  const Kernel& kernel = *warp.block->kernel;
  std::vector<std::byte>& memory = kSpace == Space::shared  ? warp.block->shared
                                   : kSpace == Space::local ? warp.local
                                                            : warp.block->arguments;
  const std::size_t limit = kSpace == Space::local ? kernel.local_bytes : memory.size();
  if (address + bytes > limit || address > limit) fail(warp, of, "an access out of bounds");
  return memory.data() + address + (kSpace == Space::local ? static_cast<std::size_t>(lane) * limit : 0);
}

template <Space kSpace, class T, int kCount>
void load(Warp& warp, const Instruction& of, Lanes lanes) {
  const auto base = values(warp, of, kCount);  // a copy: the result may be the address
  for_lanes(lanes, [&](int l) {
    T from[kCount];
    std::memcpy(from, place<kSpace>(warp, of, base[l], l, sizeof from), sizeof from);
    for (int i = 0; i < kCount; ++i)
      values(warp, of, i)[l] = static_cast<std::uint64_t>(static_cast<std::int64_t>(from[i]));
  });
}
template <Space kSpace, class T, int kCount>
void store(Warp& warp, const Instruction& of, Lanes lanes) {
  const auto& base = values(warp, of, 0);
  for_lanes(lanes, [&](int l) {
    T from[kCount];
    for (int i = 0; i < kCount; ++i) from[i] = get<T>(values(warp, of, i + 1)[l]);
    std::memcpy(place<kSpace>(warp, of, base[l], l, sizeof from), from, sizeof from);
  });
}

template <Space kSpace, class T>
Operation access(bool is_load, int count) {
  switch (count) {
    case 1:
      return is_load ? load<kSpace, T, 1> : store<kSpace, T, 1>;
    case 2:
      return is_load ? load<kSpace, T, 2> : store<kSpace, T, 2>;
    default:
      return is_load ? load<kSpace, T, 4> : store<kSpace, T, 4>;
  }
}
template <Space kSpace>
Operation access_of(std::string_view type, bool is_load, int count) {
  const bool is_signed = type[0] == 's';
  const std::string_view bits = type.substr(1);
  if (bits == "8")
    return is_signed ? access<kSpace, std::int8_t>(is_load, count)
                     : access<kSpace, std::uint8_t>(is_load, count);
  if (bits == "16")
    return is_signed ? access<kSpace, std::int16_t>(is_load, count)
                     : access<kSpace, std::uint16_t>(is_load, count);
  if (bits == "32")
    return is_signed ? access<kSpace, std::int32_t>(is_load, count)
                     : access<kSpace, std::uint32_t>(is_load, count);
  return bits == "64" ? access<kSpace, std::uint64_t>(is_load, count) : nullptr;
}

// REQUIRES: `lanes` are those that run together.
void require_lanes(Warp& warp, const Instruction& of, Lanes lanes, std::uint64_t members) {
  if ((static_cast<Lanes>(members) & warp.alive & ~lanes) != 0) fail(warp, of, "lanes are missing");
}

template <bool kButterfly>
void shuffle(Warp& warp, const Instruction& of, Lanes lanes) {
  const auto from = values(warp, of, 2), by = values(warp, of, 3), &clamp = values(warp, of, 4),
             &members = values(warp, of, 5);
  auto& to = values(warp, of, 0);
  Lanes in_range = 0;
  for_lanes(lanes, [&](int l) {
    require_lanes(warp, of, lanes, members[l]);
    const int segment = static_cast<int>(clamp[l] >> 8 & 31), last = static_cast<int>(clamp[l] & 31),
              step = static_cast<int>(by[l] & 31);
    const int highest = (l & segment) | (last & ~segment);
    int source = kButterfly ? l ^ step : (l & segment) | (step & ~segment);
    if (source <= highest)
      in_range |= Lanes{1} << l;
    else
      source = l;
    if ((lanes >> source & 1) == 0) fail(warp, of, "a shuffle from a lane that is not active");
    to[l] = static_cast<std::uint32_t>(from[source]);
  });
  Lanes& flag = predicate(warp, of, 1);
  flag = (flag & ~lanes) | in_range;
}

void match_any(Warp& warp, const Instruction& of, Lanes lanes) {
  const auto from = values(warp, of, 1), &members = values(warp, of, 2);
  auto& to = values(warp, of, 0);
  for_lanes(lanes, [&](int l) {
    require_lanes(warp, of, lanes, members[l]);
    Lanes equal = 0;
    for_lanes(lanes, [&](int k) {
      equal |= Lanes{get<std::uint32_t>(from[k]) == get<std::uint32_t>(from[l])} << k;
    });
    to[l] = equal;
  });
}

void warp_barrier(Warp& warp, const Instruction& of, Lanes lanes) {
  require_lanes(warp, of, lanes, values(warp, of, 0)[std::countr_zero(lanes)]);
}

void trap(Warp& warp, const Instruction& of, Lanes) { fail(warp, of, "a trap"); }

}  // namespace

Operation memory_operation_of(std::string_view opcode) {
  std::vector<std::string_view> words;
  while (!opcode.empty()) {
    const std::size_t dot = std::min(opcode.find('.'), opcode.size());
    words.push_back(opcode.substr(0, dot));
    opcode.remove_prefix(std::min(dot + 1, opcode.size()));
  }
  if (words.size() > 3 && words[2] == "nc") words.erase(words.begin() + 2);  // read-only: another cache
  const int count = words.size() == 4 ? words[2][1] - '0' : 1;
  if (words.size() != 3 && (words.size() != 4 || (words[2] != "v2" && words[2] != "v4"))) return nullptr;
  const std::string_view space = words[1], type = words.back();
  const bool is_load = words[0] == "ld";
  if (space == "global") return access_of<Space::global>(type, is_load, count);
  if (space == "shared") return access_of<Space::shared>(type, is_load, count);
  if (space == "local") return access_of<Space::local>(type, is_load, count);
  return space == "param" && is_load ? access_of<Space::param>(type, is_load, count) : nullptr;
}

void add_exchanges(Table& table) {
  table.add("shfl.sync.bfly.b32", shuffle<true>);
  table.add("shfl.sync.idx.b32", shuffle<false>);
  table.add("match.any.sync.b32", match_any);
  table.add("bar.warp.sync", warp_barrier);
  table.add("trap", trap);
}

}  // namespace rondo::ptx

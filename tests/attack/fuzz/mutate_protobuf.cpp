// The bytes of a message are nearly all lengths, tags and numbers of its structure: a change of one
// makes the whole file unreadable. Here fields are read, changed and written again.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "tests/attack/fuzz/mutate.h"

namespace rondo::attack {
namespace {

struct Field {
  std::uint64_t tag = 0;      // the number of the field << 3 | the wire type
  std::uint64_t integer = 0;  // of a varint
  std::string bytes = {};     // of other types
};

constexpr std::uint64_t kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5;

std::optional<std::uint64_t> take_varint(std::string_view& message) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message.front());
    message.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::vector<Field>> read_fields(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const auto tag = take_varint(message);
    if (!tag || *tag >> 3 == 0) return std::nullopt;
    Field& field = fields.emplace_back(Field{.tag = *tag});
    std::uint64_t length = 0;
    if (const std::uint64_t wire = *tag & 7; wire == kVarint || wire == kLength) {
      const auto number = take_varint(message);
      if (!number) return std::nullopt;
      (wire == kVarint ? field.integer : length) = *number;
    } else if (wire == kEightBytes || wire == kFourBytes) {
      length = wire == kEightBytes ? 8 : 4;
    } else {
      return std::nullopt;
    }
    if (length > message.size()) return std::nullopt;
    field.bytes = message.substr(0, length);
    message.remove_prefix(length);
  }
  return fields;
}

void append_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string written(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    const std::uint64_t wire = field.tag & 7;
    append_varint(field.tag, out);
    if (wire == kVarint) append_varint(field.integer, out);
    if (wire == kLength) append_varint(field.bytes.size(), out);
    out += field.bytes;
  }
  return out;
}

void change_number(std::uint64_t& number, Random& random) {
  const std::uint64_t numbers[] = {0, 1, number + 1, number - 1, random() % 64, random(), ~std::uint64_t{0}};
  number = numbers[random() % std::size(numbers)];
}

void change_value(Field& field, Random& random) {
  const std::uint64_t wire = field.tag & 7;
  if (wire == kVarint) return change_number(field.integer, random);
  if (wire == kLength) {
    const bool goes_deeper = !field.bytes.empty() && is_protobuf(field.bytes) && random() % 8 != 0;
    field.bytes = goes_deeper ? mutate_protobuf(field.bytes, random) : mutate(field.bytes, "", random);
    return;
  }
  for (char& byte : field.bytes)
    if (random() % 2 == 0) byte = static_cast<char>(random() % 4 == 0 ? 0xFF : random());
}

void change(std::vector<Field>& fields, Random& random) {
  if (fields.empty()) return;
  const std::size_t at = random() % fields.size(), other = random() % fields.size();
  switch (random() % 8) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1:
      fields.push_back(Field(fields[at]));
      return;
    case 2:
      return std::swap(fields[at], fields[other]);
    case 3:
      return change_number(fields[at].tag, random);
    default:
      return change_value(fields[at], random);
  }
}

}  // namespace

bool is_protobuf(std::string_view message) { return read_fields(message).has_value(); }

std::string mutate_protobuf(std::string_view message, Random& random) {
  std::vector<Field> fields = read_fields(message).value();
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) change(fields, random);
  return written(fields);
}

}  // namespace rondo::attack

#include "datasets/tokenizer/protobuf.h"

#include <fmt/format.h>

#include <bit>

#include "support/error.h"

namespace rondo {

void ProtobufFields::refuse(std::string_view why) const {
  throw Error(ExitCode::data, fmt::format("byte {} of a message of {} bytes {}", at_, message_.size(), why));
}

std::uint64_t ProtobufFields::read_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == message_.size()) refuse("is within a number");
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  refuse("ends a number of more than 64 bits");
}

std::string_view ProtobufFields::take(std::uint64_t count) {
  if (count > message_.size() - at_) refuse("begins a value that is longer than the message");
  const std::string_view value = message_.substr(at_, count);
  at_ += count;
  return value;
}

bool ProtobufFields::next() {
  if (at_ == message_.size()) return false;
  const std::uint64_t tag = read_varint();
  if (tag >> 3 == 0 || tag >> 32 != 0) refuse("ends the tag of no field");
  number_ = static_cast<std::uint32_t>(tag >> 3);
  wire_ = static_cast<Wire>(tag & 7);
  switch (wire_) {
    case Wire::varint:
      integer_ = read_varint();
      return true;
    case Wire::eight_bytes:
      bytes_ = take(8);
      return true;
    case Wire::length:
      bytes_ = take(read_varint());
      return true;
    case Wire::four_bytes:
      bytes_ = take(4);
      return true;
  }
  refuse("ends a tag with an unknown wire type");
}

void ProtobufFields::check_wire(Wire wire, std::string_view name) const {
  if (wire_ != wire) refuse(fmt::format("ends field {}, which must be {}", number_, name));
}

std::uint64_t ProtobufFields::integer() const {
  check_wire(Wire::varint, "a varint");
  return integer_;
}

float ProtobufFields::real() const {
  check_wire(Wire::four_bytes, "four bytes");
  std::uint32_t bits = 0;
  for (int i = 3; i >= 0; --i) bits = bits << 8 | static_cast<unsigned char>(bytes_[i]);
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufFields::bytes() const {
  check_wire(Wire::length, "bytes with a length");
  return bytes_;
}

}  // namespace rondo

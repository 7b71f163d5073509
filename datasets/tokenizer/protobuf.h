// The wire format of protobuf messages (protobuf.dev/programming-guides/encoding), without groups.
#pragma once

#include <cstdint>
#include <string_view>

namespace rondo {

// Walks over the fields of one message. REQUIRES: the message outlives it.
//   ProtobufFields field(message);
//   while (field.next())
//     if (field.number() == 1) name = field.bytes();
class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view message) : message_(message) {}

  // Advances to the next field. Returns false after the last one. Throws Error(data) if the bytes
  // are not a field, or end within one.
  bool next();

  std::uint32_t number() const { return number_; }

  // The value of the field. Throws Error(data) if it has another wire type.
  std::uint64_t integer() const;   // a varint: integers, enums, booleans
  float real() const;              // four bytes
  std::string_view bytes() const;  // with a length: strings, bytes, messages

 private:
  enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, length = 2, four_bytes = 5 };

  [[noreturn]] void refuse(std::string_view why) const;
  std::uint64_t read_varint();
  std::string_view take(std::uint64_t count);
  void check_wire(Wire wire, std::string_view name) const;

  std::string_view message_;
  std::size_t at_ = 0;
  std::uint32_t number_ = 0;
  Wire wire_ = Wire::varint;
  std::uint64_t integer_ = 0;
  std::string_view bytes_;
};

}  // namespace rondo

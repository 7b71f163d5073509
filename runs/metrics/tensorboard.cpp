// Encodes the few messages of TensorBoard by hand, which avoids a dependency on protobuf: a varint,
// two fixed widths and byte strings are enough. The table of CRC-32C is computed at compile time.
// TFRecord masks its checksums, because a checksum over data that contains checksums would be weak.
// A record is one append, so a kill can tear only the last one.
#include "runs/metrics/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

#include "support/machine/machine.h"

namespace rondo {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kReflectedCastagnoli = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

// TFRecord stores CRCs rotated and offset, so that a CRC over data with CRCs stays useful.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

template <typename Unsigned>
void put_little_endian(std::string* out, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof(value); ++byte)
    out->push_back(static_cast<char>((value >> (8 * byte)) & 0xFF));
}

// The wire types of protobuf that an Event needs.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string* out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>((value & 0x7F) | 0x80));
  out->push_back(static_cast<char>(value));
}
void put_key(std::string* out, std::uint32_t field, Wire wire) {
  put_varint(out, (field << 3) | static_cast<std::uint32_t>(wire));
}
void put_bytes(std::string* out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out->append(bytes);
}

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string event_at_now() {
  std::string event;
  put_key(&event, 1, Wire::fixed64);
  put_little_endian(&event, std::bit_cast<std::uint64_t>(wall_time_s()));
  return event;
}

std::string event_at(std::int64_t step) {
  std::string event = event_at_now();
  put_key(&event, 2, Wire::varint);
  put_varint(&event, static_cast<std::uint64_t>(step));
  return event;
}

std::string summary_value(const Scalar& scalar) {
  std::string value;
  put_bytes(&value, 1, scalar.tag);
  put_key(&value, 2, Wire::fixed32);
  put_little_endian(&value, std::bit_cast<std::uint32_t>(scalar.value));
  return value;
}

std::filesystem::path new_event_file(const std::filesystem::path& folder) {
  return folder / fmt::format("events.out.tfevents.{}.{}.{}.0", static_cast<std::int64_t>(wall_time_s()),
                              host_name(), ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  put_little_endian(&record, static_cast<std::uint64_t>(data.size()));
  put_little_endian(&record, masked(crc32c(record)));
  record.append(data);
  put_little_endian(&record, masked(crc32c(data)));
  return record;
}

std::vector<Scalar> tensorboard_scalars(const StepMetrics& metrics) {
  const auto f = [](double value) { return static_cast<float>(value); };
  std::vector<Scalar> scalars = {
      {"loss_metrics/global_avg_loss", f(metrics.loss)},
      {"grad_norm", f(metrics.grad_norm)},
      {"lr", f(metrics.lr)},
      {"throughput(tps)", f(metrics.tokens_per_s)},
      {"tflops", f(metrics.tflops)},
      {"time_metrics/end_to_end(s)", f(metrics.step_time_s)},
      {"time_metrics/data_loading(s)", f(metrics.step_time_s * metrics.data_wait_fraction)},
      {"time_metrics/data_loading(%)", f(100 * metrics.data_wait_fraction)},
      {"memory/max_active(GiB)", f(metrics.memory_gib)},
      {"n_tokens_seen", f(static_cast<double>(metrics.tokens_seen))},
  };
  if (metrics.mfu) scalars.push_back({"mfu(%)", f(*metrics.mfu)});
  if (const auto& o = metrics.overflow; o)
    for (const auto& [tag, count] : {std::pair("experts/dropped_tokens", o->dropped_tokens),
                                     std::pair("experts/repeated_steps", o->repeated_steps),
                                     std::pair("experts/skipped_steps", o->skipped_steps)})
      scalars.push_back({tag, f(static_cast<double>(count))});
  return scalars;
}

std::vector<Scalar> tensorboard_scalars(const ValidationMetrics& metrics) {
  return {{"validation_metrics/loss", static_cast<float>(metrics.loss)},
          {"validation_metrics/throughput(tps)", static_cast<float>(metrics.tokens_per_s)},
          {"validation_metrics/memory/max_active(GiB)", static_cast<float>(metrics.memory_gib)}};
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step)
    : file_(new_event_file(folder)) {
  std::string version = event_at_now();
  put_bytes(&version, 3, "brain.Event:2");
  std::string session = event_at(first_step);
  put_bytes(&session, 7, std::string("\x08\x01", 2));  // {status: START}
  file_.append(tfrecord(version) + tfrecord(session));
}

void EventFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  std::string event = event_at(step);
  std::string summary;
  for (const Scalar& scalar : scalars) put_bytes(&summary, 1, summary_value(scalar));
  put_bytes(&event, 5, summary);
  file_.append(tfrecord(event));
}

}  // namespace rondo

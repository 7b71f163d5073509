// Writes scalars for TensorBoard: an event file in TFRecord format with messages of event.proto,
// encoded by hand.
//
// A record is: length (uint64), masked CRC32C of those 8 bytes, the bytes, masked CRC32C of the
// bytes; all little-endian. The bytes are an Event message: wall_time (1, double), step (2, int64),
// then one of file_version (3, "brain.Event:2", in the first record), summary (5) of values {tag
// (1), simple_value (2, float)}, or session_log (7) with status (1) START = 1. At a START, readers
// drop earlier data of this step and later ones. For errors and the effects of a kill, see
// append_file.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runs/metrics/step_metrics.h"
#include "support/files/append_file.h"

namespace rondo {

// CRC-32C (Castagnoli), reflected; "123456789" gives 0xE3069283.
std::uint32_t crc32c(std::string_view bytes);

// Returns a TFRecord that contains `data`.
std::string tfrecord(std::string_view data);

struct Scalar {
  std::string tag;
  float value;
};

// Return scalars with the tags of torchtitan, so that its dashboards work. An unknown mfu is left
// out. If experts have room for a limited number of rows, "experts/dropped_tokens" and the like are
// counted since the last event.
std::vector<Scalar> tensorboard_scalars(const StepMetrics& metrics);
std::vector<Scalar> tensorboard_scalars(const ValidationMetrics& metrics);

class EventFile {
 public:
  // Creates `folder/events.out.tfevents.TIME.HOST.PID.0` in an existing folder. From `first_step`,
  // the next step to be written, the file replaces the data of earlier files in the folder.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  void write(std::int64_t step, std::span<const Scalar> scalars);
  AppendFile& file() { return file_; }

 private:
  AppendFile file_;
};

}  // namespace rondo

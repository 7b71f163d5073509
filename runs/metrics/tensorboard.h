// Scalars for TensorBoard: an event file as its TFRecord format and event.proto describe it, written by hand.
//
// A record is: length (uint64), masked CRC32C of those 8 bytes, the bytes, masked CRC32C of the bytes; all
// little-endian. The bytes are an Event message: wall_time (1, double), step (2, int64), then file_version
// (3, "brain.Event:2", in the first record), summary (5) of values {tag (1), simple_value (2, float)}, or
// session_log (7) with status (1) START = 1: readers then drop what they had of this step and later ones.
// Errors and what a kill leaves behind: see append_file.h. Not thread-safe.
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

// One TFRecord around `data`.
std::string tfrecord(std::string_view data);

struct Scalar {
  std::string tag;
  float value;
};

// The tags that torchtitan writes, so that its dashboards work; what is unknown (mfu) is left out. Where
// experts have room for a number of rows, "experts/dropped_tokens" and the like are counted since the last
// event.
std::vector<Scalar> tensorboard_scalars(const StepMetrics& metrics);
std::vector<Scalar> tensorboard_scalars(const ValidationMetrics& metrics);

class EventFile {
 public:
  // Makes `folder/events.out.tfevents.TIME.HOST.PID.0` in a folder that exists. `first_step`: the next one
  // that is written; from there on it replaces what earlier files in the folder say.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  void write(std::int64_t step, std::span<const Scalar> scalars);
  AppendFile& file() { return file_; }

 private:
  AppendFile file_;
};

}  // namespace rondo

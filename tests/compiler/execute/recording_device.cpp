// Checks the rules of replay_device.h at each call, and throws the errors that a test requested.
#include "tests/compiler/execute/recording_device.h"

#include <algorithm>
#include <stdexcept>

#include "compiler/execute/planned_step.h"

namespace rondo {

std::string DeviceLog::text() const {
  std::string text;
  for (const std::string& call : calls) text += (text.empty() ? "" : ", ") + call;
  return text;
}

std::size_t DeviceLog::count(const std::string& prefix) const {
  return static_cast<std::size_t>(std::count_if(
      calls.begin(), calls.end(), [&](const std::string& call) { return call.starts_with(prefix); }));
}

RecordingDevice::~RecordingDevice() {
  require(pool_bytes() == 0, "the pool is released before the device goes");
  require(recordings_.empty(), "recordings are destroyed before the device goes");
}

void RecordingDevice::note(const std::string& call) {
  log_->calls.push_back(call);
  const auto failure = failures_.find(call);
  if (failure == failures_.end()) return;
  const std::string message = failure->second;
  failures_.erase(failure);
  throw std::runtime_error(message);
}

void RecordingDevice::require(bool condition, const std::string& rule) {
  if (!condition) log_->violations.push_back(rule);
}

char* RecordingDevice::reserve(std::size_t bytes) {
  note("reserve");
  require(!capture_, "no block is reserved in a capture");
  return cpu_->reserve(bytes);
}

void RecordingDevice::release_pool() noexcept {
  log_->calls.push_back("release_pool");
  require(recordings_.empty(), "recordings are destroyed before the pool");
  require(!under_way_, "nothing runs when the pool is released");
  require(pool_bytes() > 0, "the pool is released once");
  cpu_->release_pool();
}

void RecordingDevice::enter() {
  note("enter");
  require(!entered_, "one turn at a time");
  entered_ = true;
}

void RecordingDevice::leave() noexcept {
  log_->calls.push_back("leave");
  require(!capture_, "a capture ends within its turn");
  entered_ = false;
}

void RecordingDevice::begin_capture() {
  note("begin");
  require(entered_ && !capture_, "one capture at a time, within a turn");
  capture_.emplace();
}

ReplayDevice::Recording RecordingDevice::end_capture() {
  note("end " + std::to_string(next_));
  recordings_[next_] = std::move(capture_.value());
  capture_.reset();
  return next_++;
}

void RecordingDevice::abandon_capture() noexcept {
  log_->calls.push_back("abandon");
  require(capture_.has_value(), "a capture is abandoned that began");
  capture_.reset();
}

ReplayDevice::Issued RecordingDevice::issue(Instruction& instruction, std::span<const std::span<char>>) {
  require(entered_, "work is issued within a turn");
  note((capture_ ? "record " : "run ") + instruction.node().op);
  if (capture_) {
    capture_->push_back(&instruction);
  } else {
    run(instruction);
  }
  return {};
}

void RecordingDevice::count_up() {
  note(capture_ ? "record count" : "count");
  if (capture_) {
    capture_->push_back(nullptr);
  } else {
    ++counted_;
  }
}

void RecordingDevice::launch(Recording recording) {
  note("launch " + std::to_string(recording));
  require(entered_ && !capture_, "a launch is within a turn and outside of a capture");
  require(recordings_.count(recording) == 1, "a launched recording exists");
  under_way_ = true;
  if (hanging_ == recording) return;
  for (Instruction* instruction : recordings_.at(recording)) {
    if (instruction == nullptr) {
      ++counted_;
    } else {
      run(*instruction);
    }
  }
}

void RecordingDevice::synchronize() {
  note("synchronize");
  require(!capture_, "no wait for the device in a capture");
  under_way_ = false;
}

void RecordingDevice::destroy(Recording recording) noexcept {
  log_->calls.push_back("destroy " + std::to_string(recording));
  require(!under_way_, "nothing runs when a recording is destroyed");
  require(recordings_.erase(recording) == 1, "a recording is destroyed once");
}

}  // namespace rondo

// A device that records without a GPU. It stores the instructions of a capture and calls them at
// each launch, at the planned addresses, with the CPU's memory and calls. It logs every call and
// every violation of the rules of replay_device.h, and fails on request.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/execute/cpu_device.h"

namespace rondo {

// Outlives the device, so that tests can inspect its end.
struct DeviceLog {
  std::vector<std::string>
      calls;  // "begin", "record aten.mm.default", "end 0", "launch 0", "run aten.mm.default"
  std::vector<std::string> violations;  // of the requirements of ReplayDevice

  void clear() { calls.clear(); }
  std::string text() const;                            // the calls, separated by ", "
  std::size_t count(const std::string& prefix) const;  // calls with this prefix
};

class RecordingDevice final : public ReplayDevice {
 public:
  explicit RecordingDevice(std::shared_ptr<DeviceLog> log) : log_(std::move(log)) {}
  ~RecordingDevice() override;

  // The next call that is logged as `call` throws std::runtime_error(message).
  void fail_at(std::string call, std::string message) { failures_[std::move(call)] = std::move(message); }
  // Makes later launches of this recording hang, as if another rank were lost.
  void hang_at(Recording recording) { hanging_ = recording; }

  c10::Device device() const override { return c10::kCPU; }
  char* reserve(std::size_t bytes) override;
  char* reserve_on_host(std::size_t bytes) override { return reserve(bytes); }
  void release_pool() noexcept override;
  std::int64_t pool_bytes() const override { return cpu_->pool_bytes(); }
  std::int64_t free_bytes() const override { return (std::int64_t{1} << 30) - pool_bytes(); }
  void enter() override;
  void leave() noexcept override;
  // Temporaries use the heap, so `room` is ignored.
  Issued issue(Instruction& instruction, std::span<const std::span<char>> room) override;
  void synchronize() override;
  void begin_capture() override;
  Recording end_capture() override;
  void abandon_capture() noexcept override;
  void launch(Recording recording) override;
  void destroy(Recording recording) noexcept override;
  void count_up() override;
  std::int64_t counted() const override { return counted_; }

 private:
  using Work = std::vector<Instruction*>;  // nullptr for count_up

  void note(const std::string& call);  // and fails on request
  void require(bool condition, const std::string& rule);
  void run(Instruction& instruction) { cpu_->issue(instruction, {}); }

  std::shared_ptr<DeviceLog> log_;
  std::map<std::string, std::string> failures_;
  const std::shared_ptr<ReplayDevice> cpu_ = make_cpu_device();
  std::map<Recording, Work> recordings_;
  std::optional<Work> capture_;
  std::optional<Recording> hanging_;
  Recording next_ = 0;
  bool entered_ = false;
  bool under_way_ = false;  // launched since the last synchronize
  std::atomic<std::int64_t> counted_ = 0;
};

}  // namespace rondo

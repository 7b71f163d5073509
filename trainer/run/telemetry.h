// Reports a run while it trains: through the Report on rank 0; nothing on other ranks.
#pragma once

#include <string_view>
#include <utility>

#include "support/log.h"
#include "trainer/observe/report.h"

namespace rondo {

class Telemetry {
 public:
  // `report` must outlive this; nullptr: silent.
  explicit Telemetry(Report* report = nullptr) : report_(report) {}

  // Returns whether this rank has the report and the run folder, and so writes what only one
  // rank writes.
  bool is_writer() const { return report_ != nullptr; }
  Report* report() const { return report_; }

  // telemetry(&Report::step_done, done, result) makes the call on rank 0 and does
  // nothing elsewhere.
  template <class... Parameters, class... Arguments>
  void operator()(void (Report::*call)(Parameters...), Arguments&&... arguments) const {
    if (report_ != nullptr) (report_->*call)(std::forward<Arguments>(arguments)...);
  }
  void info(std::string_view line) const {
    if (report_ != nullptr) log_info(line);
  }
  void warn(std::string_view line) const {
    if (report_ != nullptr) log_warning(line);
  }

  // Pauses the clocks of throughput during its lifetime.
  class Pause {
   public:
    explicit Pause(const Telemetry& telemetry) : telemetry_(telemetry) { telemetry_(&Report::pause); }
    ~Pause() { telemetry_(&Report::go_on); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    const Telemetry& telemetry_;
  };

 private:
  Report* report_;
};

}  // namespace rondo

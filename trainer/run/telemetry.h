// What a run reports while it trains: the report of rank 0, silence on the other ranks.
#pragma once

#include <string_view>
#include <utility>

#include "support/log.h"
#include "trainer/observe/report.h"

namespace rondo {

class Telemetry {
 public:
  // `report` outlives this; nullptr: silent.
  explicit Telemetry(Report* report = nullptr) : report_(report) {}

  // Whether this rank has the report and the run folder, and so writes what only one rank writes.
  bool is_writer() const { return report_ != nullptr; }
  Report* report() const { return report_; }

  // tell(&Report::step_done, done, result): the call on rank 0, nothing elsewhere.
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

  // The clocks of throughput stand still while it lives.
  class Pause {
   public:
    explicit Pause(const Telemetry& tell) : tell_(tell) { tell_(&Report::pause); }
    ~Pause() { tell_(&Report::go_on); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    const Telemetry& tell_;
  };

 private:
  Report* report_;
};

}  // namespace rondo

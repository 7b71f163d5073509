#include "trainer/run/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parallel/groups/comm_record.h"
#include "support/log.h"

namespace rondo {

std::optional<Straggler> find_straggler(const std::vector<double>& waited_s, double elapsed_s) {
  constexpr double kShare = 0.2;
  if (waited_s.size() < 2) return std::nullopt;
  const auto least = std::min_element(waited_s.begin(), waited_s.end());
  double next = INFINITY;
  for (auto other = waited_s.begin(); other != waited_s.end(); ++other)
    if (other != least) next = std::min(next, *other);
  if (!(next - *least >= kShare * elapsed_s)) return std::nullopt;
  return Straggler{least - waited_s.begin(), next - *least};
}

void Stragglers::look(ProcessGroups& groups, std::int64_t step) {
  if (groups.size() == 1) return;
  const double waited = comm_record::waited_s() + between_steps_s_;
  if (time_) {
    const double elapsed = time_->seconds();
    std::vector<double> waits_s;
    for (const std::int64_t microseconds : groups.all_gather(std::llround(1e6 * (waited - waited_s_))))
      waits_s.push_back(1e-6 * static_cast<double>(microseconds));
    const std::optional<Straggler> straggler = find_straggler(waits_s, elapsed);
    if (straggler && reported_ != straggler->rank && groups.rank() == 0)
      log_warning(fmt::format(
          "rank {} delays the others: in steps {} to {} each of them waited {:.1f} of {:.1f} s "
          "longer than it. Check its machine: other processes, clocks, temperature, disk and network",
          straggler->rank, since_step_ + 1, step, straggler->seconds, elapsed));
    reported_ = straggler ? std::optional(straggler->rank) : std::nullopt;
  }
  time_.emplace();
  since_step_ = step;
  waited_s_ = waited;
}

}  // namespace rondo

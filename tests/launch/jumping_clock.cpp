// A library for LD_PRELOAD that sets the clock: CLOCK_REALTIME is $JUMPING_CLOCK_S seconds off from
// when $JUMPING_CLOCK_FROM, a path, exists.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  const char *file = std::getenv("JUMPING_CLOCK_FROM"), *offset = std::getenv("JUMPING_CLOCK_S");
  const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (is_wall && file != nullptr && offset != nullptr && access(file, F_OK) == 0)
    time->tv_sec += std::atol(offset);
  return result;
}

extern "C" time_t time(time_t* result) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

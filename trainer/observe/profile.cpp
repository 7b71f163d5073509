// Prepares the profiler's library in the warm-up steps, because its start would distort the first
// traced step. During the lifetime of a Window, LibTorch records this thread. Its destructor drops
// what was not saved. Saving reports no errors, so the file is removed before and checked
// afterwards. Without a GPU the library's log is silenced, as it reports the missing GPU as an
// error.
#include "trainer/observe/profile.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <system_error>

#include "support/error.h"
#include "support/log.h"

// Declared in kineto_shim.h, which the wheel contains without its own includes.
namespace torch::autograd::profiler {
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}

namespace rondo {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::set<ActivityType> activities() {
  std::set<ActivityType> types = {ActivityType::CPU};
  if (at::hasCUDA()) types.insert(ActivityType::CUDA);
  return types;
}

torch::profiler::impl::ProfilerConfig recorder() {
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO,
                                               /*report_input_shapes=*/true);
}

// Named like PyTorch's steps, for tools that search for them.
struct StepRange {
  explicit StepRange(std::int64_t step)
      : name(fmt::format("ProfilerStep#{}", step)), range(at::RecordScope::USER_SCOPE) {
    if (range.isActive()) range.before(std::string_view(name));
  }
  std::string name;
  at::RecordFunction range;
};

}  // namespace

// LibTorch records this thread during its lifetime.
class Profile::Window {
 public:
  Window() {
    profiler::enableProfiler(recorder(), activities(),
                             {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
    ranges_.emplace();
  }
  ~Window() {
    if (!ranges_) return;
    end_step();
    ranges_.reset();
    profiler::disableProfiler();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void begin_step(std::int64_t step) { step_.emplace(step); }
  void end_step() { step_.reset(); }
  void save(const std::filesystem::path& file) {
    ranges_.reset();
    profiler::disableProfiler()->save(file);
  }

 private:
  std::optional<StepRange> step_;
  std::optional<ModuleRanges> ranges_;
};

Profile::Profile(const Profiling& config, std::filesystem::path folder, int rank, int world_size)
    : schedule_{config.profile_freq, config.profiler_active, config.profiler_warmup},
      folder_(std::move(folder)),
      rank_(rank),
      world_size_(world_size) {}

Profile::~Profile() = default;

void Profile::step_begins(std::int64_t step) {
  const bool opens = step == schedule_.first_active(step);
  if (!prepared_ && (opens || schedule_.warms_up(step))) {
    // The library reports a missing GPU as an error.
    if (!at::hasCUDA()) setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
    profiler::prepareProfiler(recorder(), activities());
    prepared_ = true;
  }
  if (opens) {
    window_ = std::make_unique<Window>();
    profiler::addMetadataJson("distributedInfo",
                              fmt::format("{{\"rank\": {}, \"world_size\": {}}}", rank_, world_size_));
  }
  if (window_) window_->begin_step(step);
}

void Profile::step_ends(std::int64_t step) {
  if (!window_) return;
  window_->end_step();
  if (step == schedule_.window_end(step)) save(step);
}

void Profile::finish(std::int64_t step) {
  if (window_) save(step);
}

void Profile::save(std::int64_t step) {
  const std::filesystem::path file =
      folder_ / fmt::format("iteration_{}", step) / fmt::format("rank{}_trace.json", rank_);
  std::error_code problem;
  std::filesystem::create_directories(file.parent_path(), problem);
  std::filesystem::remove(file, problem);  // a file of an earlier run must not count as written
  window_->save(file);
  window_.reset();
  prepared_ = false;
  if (!std::filesystem::exists(file, problem))
    log_warning("the profile cannot be written to " + file.string() + "; the run continues without it");
  else if (rank_ == 0)
    log_info(fmt::format("profile of step {}: {} (https://ui.perfetto.dev opens it)", step, file.string()));
}

}  // namespace rondo

// NVML comes with the driver and is loaded when it is asked, so that the program runs without it.
// Its functions have had these signatures since MIG exists (NVML API Reference).
#include "support/machine/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/text/numbers.h"

namespace rondo {
namespace {

enum class Gpu { whole, mig, unusable };

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~Nvml() {
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Returns the GPUs in the driver's order; nullopt without a driver.
  std::optional<std::vector<Gpu>> gpus() const {
    unsigned count = 0;
    if (!call("nvmlInit_v2")) return std::nullopt;
    std::vector<Gpu> gpus;
    if (call("nvmlDeviceGetCount_v2", &count))
      for (unsigned i = 0; i < count; ++i) gpus.push_back(gpu(i));
    call("nvmlShutdown");
    return gpus;
  }

 private:
  // Returns whether the function exists and succeeds.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (library_ == nullptr) return false;
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }
  Gpu gpu(unsigned index) const {
    void *device = nullptr, *instance = nullptr;
    unsigned mode = 0, pending = 0, most = 0;
    if (!call("nvmlDeviceGetHandleByIndex_v2", index, &device)) return Gpu::unusable;
    if (!call("nvmlDeviceGetMigMode", device, &mode, &pending) || mode == 0) return Gpu::whole;
    if (!call("nvmlDeviceGetMaxMigDeviceCount", device, &most)) return Gpu::unusable;
    for (unsigned i = 0; i < most; ++i)
      if (call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &instance)) return Gpu::mig;
    return Gpu::unusable;
  }

  void* library_;
};

// Returns the entries of CUDA_VISIBLE_DEVICES before the first invalid one; nullopt if it is unset.
std::optional<std::vector<std::string>> visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return std::nullopt;
  std::vector<std::string> entries;
  for (std::string_view list = visible; !list.empty() && list[0] != '-' && list[0] != ',';) {
    entries.emplace_back(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(list.size(), entries.back().size() + 1));
  }
  return entries;
}

}  // namespace

int visible_gpus() {
  if (const auto entries = visible_devices()) return static_cast<int>(entries->size());
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && number_in(std::string_view(name).substr(6), 0, 1 << 20)) ++count;
  }
  return count;
}

int gpus_of_driver() {
  const auto gpus = Nvml().gpus();
  if (!gpus) return visible_gpus();
  const auto entries = visible_devices();
  int whole = 0;
  bool has_mig = false;
  const auto add = [&](Gpu gpu) {
    if (gpu == Gpu::whole) ++whole;
    has_mig = has_mig || gpu == Gpu::mig;
  };
  if (!entries)
    for (const Gpu gpu : *gpus) add(gpu);
  else
    for (const std::string& entry : *entries) {
      const auto index = number_in<std::size_t>(entry, 0, 1 << 20);
      if (index && (*index >= gpus->size() || (*gpus)[*index] == Gpu::unusable)) break;
      add(index ? (*gpus)[*index] : entry.starts_with("MIG-") ? Gpu::mig : Gpu::whole);
    }
  return whole > 0 ? whole : has_mig ? 1 : 0;
}

}  // namespace rondo

#include "softgpu/device/system_files.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "softgpu/device/report.hpp"
#include "softgpu/exec/engine.hpp"

namespace kerncap::softgpu {
namespace {

// Where add_topology() and add_pci_devices() put something.
constexpr std::string_view k_places[] = {
    "/dev/kfd", "/dev/dri", "/sys/bus/pci/devices", "/sys/bus/pci/drivers/amdgpu", "/sys/class/drm", "/sys/class/kfd",
    "/sys/dev/char", "/sys/devices/pci0000:00", "/sys/devices/virtual/kfd", "/sys/module/amdgpu",
};

// How a program that is started in a shell on the software GPU does without one.
[[nodiscard]] bool is_switched_off() noexcept {
  const char* text = std::getenv("KERNCAP_SOFTGPU");
  return text != nullptr && std::string_view(text) == "0";
}

[[nodiscard]] const Settings* checked_settings() {
  if (is_switched_off()) return nullptr;
  auto settings = Settings::from_environment();
  if (!settings) {
    report("%s; the program will see no GPU", settings.error().message.c_str());
    return nullptr;
  }
  if (const char* problem = Engine::host_problem()) {
    report("%s; the program will see no GPU", problem);
    return nullptr;
  }
  return new Settings(std::move(settings).value());
}

// The first value that a thread publishes is everybody's and stays. No lock: a fork may happen while one is held.
template <typename T>
[[nodiscard]] const T* publish(std::atomic<const T*>& known, const T* fresh) {
  const T* expected = nullptr;
  if (known.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return expected;
}

}  // namespace

const Settings* process_settings() noexcept {
  static constinit std::atomic<const Settings*> known{nullptr};
  static constinit std::atomic<bool> is_bad{false};
  if (const Settings* settings = known.load(std::memory_order_acquire)) return settings;
  if (is_bad.load()) return nullptr;
  const Settings* fresh = checked_settings();
  if (fresh != nullptr) return publish(known, fresh);
  is_bad.store(true);
  return nullptr;
}

bool may_be_system_file(const char* path) noexcept {
  if (path[0] != '/') return false;
  std::string_view view(path);
  view.remove_prefix(std::min(view.find_first_not_of('/'), view.size()) - 1);
  if (!view.starts_with("/dev") && !view.starts_with("/sys")) return false;
  // "." and ".." and empty names are rare, and removed elsewhere.
  if (view.find("//") != std::string_view::npos || view.find("/.") != std::string_view::npos) return true;
  return std::any_of(std::begin(k_places), std::end(k_places),
                     [&](std::string_view place) { return view.starts_with(place) || place.starts_with(view); });
}

const FileTree* system_files() noexcept {
  static constinit std::atomic<const FileTree*> known{nullptr};
  if (const FileTree* files = known.load(std::memory_order_acquire)) return files;
  const Settings* settings = process_settings();
  if (settings == nullptr) return nullptr;
  auto fresh = std::make_unique<FileTree>();
  add_topology(*fresh, *settings);
  add_pci_devices(*fresh, *settings);
  return publish<FileTree>(known, fresh.release());
}

}  // namespace kerncap::softgpu

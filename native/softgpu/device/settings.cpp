#include "softgpu/device/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "softgpu/device/clock_jumps.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_granule = std::uint64_t{1} << 30;
constexpr unsigned k_max_gpus = 8;

[[nodiscard]] const char* variable(const char* name) noexcept {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

[[nodiscard]] core::Error bad(const char* name, const char* text, const char* wanted) {
  return {core::ErrorCode::invalid_argument, std::string(name) + "=" + text + ": " + wanted};
}

template <typename T>
[[nodiscard]] core::Result<T> number(const char* name, T otherwise, T least, T most, const char* wanted) {
  const char* text = variable(name);
  if (text == nullptr) return otherwise;
  const std::string_view view(text);
  T value{};
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc{} || end != view.data() + view.size() || value < least || value > most) {
    return bad(name, text, wanted);
  }
  return value;
}

// Programs take memory by the fraction, so what is reported must exist: three quarters of the host's, shared out.
[[nodiscard]] std::uint64_t default_vram_bytes(const Chip& chip, unsigned gpus) {
  const auto pages = static_cast<std::uint64_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L));
  const std::uint64_t host_bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t share = host_bytes / 4 * 3 / gpus / k_granule * k_granule;
  return std::clamp(share, k_granule, chip.vram_bytes);
}

}  // namespace

core::Result<Settings> Settings::from_environment() {
  Settings settings;
  const char* target_text = variable("KERNCAP_SOFTGPU_TARGET");
  const auto target = parse_target(target_text != nullptr ? target_text : "gfx90a");
  if (!target) return bad("KERNCAP_SOFTGPU_TARGET", target_text, "expected gfx90a, gfx942 or gfx1100");
  settings.chip = &chip_of(*target);

  auto gpus = number<unsigned>("KERNCAP_SOFTGPU_GPUS", 1, 1, k_max_gpus, "expected 1 to 8");
  if (!gpus) return gpus.error();
  settings.gpu_count = gpus.value();

  auto vram = number<std::uint64_t>("KERNCAP_SOFTGPU_VRAM_BYTES", default_vram_bytes(*settings.chip, gpus.value()),
                                    std::uint64_t{256} << 20, std::uint64_t{1} << 40,
                                    "expected a number of bytes from 256 MiB to 1 TiB");
  if (!vram) return vram.error();
  settings.vram_bytes = vram.value() / 4096 * 4096;

  auto workers = number<unsigned>("KERNCAP_SOFTGPU_WORKERS", 0, 1, 1024, "expected 1 to 1024");
  if (!workers) return workers.error();
  settings.workers = workers.value();

  if (const char* lds = variable("KERNCAP_SOFTGPU_LDS")) {
    const std::string_view word(lds);
    if (word == "report") settings.beyond_lds = BeyondLds::report;
    else if (word == "stop") settings.beyond_lds = BeyondLds::stop;
    else if (word != "hardware") return bad("KERNCAP_SOFTGPU_LDS", lds, "expected hardware, report or stop");
  }

  if (const char* text = variable("KERNCAP_SOFTGPU_SCHEDULE")) {
    const auto schedule = Schedule::parse(text);
    if (!schedule) return bad("KERNCAP_SOFTGPU_SCHEDULE", text, "expected hardware-like, adversarial or adversarial:SEED");
    settings.schedule = *schedule;
  }

  if (const char* text = variable("KERNCAP_SOFTGPU_CLOCK")) {
    if (!ClockJumps::parse(text, settings.clock_seed)) return bad("KERNCAP_SOFTGPU_CLOCK", text, "expected steady or jumps:SEED");
  }

  if (const char* text = variable("KERNCAP_SOFTGPU_UNSET")) {
    settings.keeps_leftovers = std::string_view(text) == "leftovers";
    if (!settings.keeps_leftovers && std::string_view(text) != "patterns") {
      return bad("KERNCAP_SOFTGPU_UNSET", text, "expected patterns or leftovers");
    }
  }

  const char* trace = variable("KERNCAP_SOFTGPU_TRACE");
  settings.trace = trace != nullptr && std::string_view(trace) != "0";
  if (const char* path = variable("KERNCAP_SOFTGPU_COUNT")) settings.count_path = path;
  if (const char* path = variable("KERNCAP_SOFTGPU_ACCESSES")) settings.accesses_path = path;
  if (const char* path = variable("KERNCAP_SOFTGPU_REFUSALS")) settings.refusals_path = path;
  return settings;
}

}  // namespace kerncap::softgpu

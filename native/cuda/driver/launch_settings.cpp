// Reads lines of a plan, no driver call.
#include "cuda/driver/launch_settings.hpp"

namespace kerncap::cuda {

bool LaunchSettings::read_line(std::string_view what, replay::PlanLine& line) {
  constexpr std::size_t k_value_bytes = 64;
  if (what == "limit") {
    const std::string name(line.word());
    limits[name] = line.number();
  } else if (what == "carveout") {
    carveout = static_cast<int>(line.small());
  } else if (what == "attribute") {
    std::vector<std::byte>& value = attributes[line.small()];
    value = line.bytes();
    line.ok = line.ok && value.size() == k_value_bytes;
  } else if (what == "cluster") {
    line.dim3(cluster);
  } else {
    return false;
  }
  return true;
}

}  // namespace kerncap::cuda

// Plain arithmetic, no driver call.
#include "cuda/driver/reservations.hpp"

#include <algorithm>

namespace kerncap::cuda {

bool is_reserved(const replay::Region& region) noexcept { return region.kind != replay::Kind::host_registered; }

std::vector<Reservation> reservations_of(const std::vector<replay::Region>& regions) {
  std::vector<Reservation> wide;
  for (const replay::Region& region : regions) {
    if (!is_reserved(region) || region.bytes == 0) continue;
    const std::uint64_t begin = region.base & ~(k_reservation_bytes - 1);
    const std::uint64_t end = (region.end() + k_reservation_bytes - 1) & ~(k_reservation_bytes - 1);
    wide.push_back({begin, end - begin});
  }
  std::sort(wide.begin(), wide.end(), [](const Reservation& a, const Reservation& b) { return a.base < b.base; });
  std::vector<Reservation> merged;
  for (const Reservation& one : wide) {
    if (!merged.empty() && one.base <= merged.back().end()) {
      merged.back().bytes = std::max(merged.back().end(), one.end()) - merged.back().base;
    } else {
      merged.push_back(one);
    }
  }
  return merged;
}

std::vector<Slack> slack_of(const std::vector<replay::Region>& regions, std::uint64_t granule_bytes) {
  std::vector<Slack> all;
  std::uint64_t mapped = 0;              // where the granules of the regions before end
  std::uint64_t used = 0;                // where those regions end
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      const std::uint64_t stop = std::min(end, begin / granule_bytes * granule_bytes + granule_bytes);
      if (all.empty() || all.back().base() / granule_bytes != begin / granule_bytes) all.emplace_back();
      all.back().gaps.push_back({begin, stop - begin});
      begin = stop;
    }
  };
  for (const replay::Region& region : regions) {
    if (!is_reserved(region) || region.bytes == 0) continue;
    const std::uint64_t begin = region.base / granule_bytes * granule_bytes;
    if (begin < mapped) {
      add(used, region.base);
    } else {
      add(used, mapped);
      add(begin, region.base);
    }
    used = region.end();
    mapped = (used + granule_bytes - 1) / granule_bytes * granule_bytes;
  }
  add(used, mapped);
  return all;
}

}  // namespace kerncap::cuda

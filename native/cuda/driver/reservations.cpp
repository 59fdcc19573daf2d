// Plain arithmetic, no driver call.
#include "cuda/driver/reservations.hpp"

#include <algorithm>

namespace kerncap::cuda {

bool is_reserved(const replay::Region& region) noexcept { return region.kind != replay::Kind::host_registered; }

bool is_within(const std::vector<Reservation>& ranges, std::uint64_t address) noexcept {
  return std::any_of(ranges.begin(), ranges.end(),
                     [address](const Reservation& range) { return range.base <= address && address < range.end(); });
}

namespace {

Reservation widened(const replay::Region& region) noexcept {
  const std::uint64_t begin = region.base & ~(k_reservation_bytes - 1);
  const std::uint64_t end = (region.end() + k_reservation_bytes - 1) & ~(k_reservation_bytes - 1);
  return {begin, end - begin};
}

}  // namespace

std::vector<Reservation> managed_blocks_of(const std::vector<replay::Region>& regions) {
  std::vector<Reservation> blocks;
  std::uint64_t whole_end = 0;           // of the last one, as a block
  for (const replay::Region& region : regions) {
    if (region.kind != replay::Kind::managed || region.bytes == 0) continue;
    const Reservation wide = widened(region);
    if (!blocks.empty() && wide.base <= whole_end) {
      blocks.back().bytes = region.end() - blocks.back().base;
    } else {
      blocks.push_back({wide.base, region.end() - wide.base});
    }
    whole_end = wide.end();
  }
  std::erase_if(blocks, [&](const Reservation& block) {
    return std::any_of(regions.begin(), regions.end(), [&](const replay::Region& region) {
      const Reservation wide = widened(region);
      return region.kind != replay::Kind::managed && region.bytes != 0 && wide.base < block.end() && block.base < wide.end();
    });
  });
  return blocks;
}

std::vector<Reservation> reservations_of(const std::vector<replay::Region>& regions,
                                         const std::vector<Reservation>& managed) {
  std::vector<Reservation> wide;
  for (const replay::Region& region : regions) {
    if (!is_reserved(region) || region.bytes == 0 || is_within(managed, region.base)) continue;
    wide.push_back(widened(region));
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

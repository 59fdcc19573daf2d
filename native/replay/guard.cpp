#include "replay/guard.hpp"

#include <algorithm>

namespace kerncap::replay {
namespace {

// Each piece is a mapping of its own, whose rights change twice for each guarded run: of more, the largest are guarded.
constexpr std::size_t k_most_pieces = 256;

// Ascending, neighbours in one.
std::vector<AddressRange> merged(std::vector<AddressRange> ranges) {
  std::ranges::sort(ranges, {}, &AddressRange::base);
  std::vector<AddressRange> found;
  for (const AddressRange& each : ranges) {
    if (each.bytes == 0) continue;
    if (found.empty() || each.base > found.back().base + found.back().bytes) {
      found.push_back(each);
    } else {
      AddressRange& last = found.back();
      last.bytes = std::max(last.base + last.bytes, each.base + each.bytes) - last.base;
    }
  }
  return found;
}

// Whole granules that hold it.
AddressRange widened(const AddressRange& range, std::uint64_t granule) {
  const std::uint64_t begin = range.base / granule * granule;
  return {begin, (range.base + range.bytes + granule - 1) / granule * granule - begin};
}

bool is_known(const Region& region) { return region.pre != nullptr && region.post != nullptr; }

}  // namespace

Guard::Guard(const Plan& plan, std::uint64_t granule_bytes, const std::function<bool(const Region&)>& can_guard) {
  if (!plan.guarded) return;
  std::vector<AddressRange> all;
  std::vector<AddressRange> open = plan.open;
  for (const Region& region : plan.regions) {
    // What the program could not write stays so after the guard, too. Of one piece of memory that several regions map,
    // each region's rights would be those of all.
    const bool is_guarded = is_known(region) && !region.own_code && region.piece == 0 &&
                            region.kind != Kind::code_object && region.kind != Kind::kernarg &&
                            (region.flags & k_flag_read_only) == 0 && can_guard(region);
    const AddressRange whole{region.base, region.bytes};
    (is_guarded ? all : open).push_back(is_guarded ? widened(whole, granule_bytes) : whole);
    for (const ByteRange& written : region.written) open.push_back({region.base + written.offset, written.bytes});
  }
  for (AddressRange& each : open) each = widened(each, granule_bytes);
  open = merged(std::move(open));
  std::vector<AddressRange> found;
  auto next = open.begin();
  for (const AddressRange& each : merged(std::move(all))) {
    std::uint64_t at = each.base;
    const std::uint64_t end = each.base + each.bytes;
    while (next != open.end() && next->base + next->bytes <= at) ++next;
    for (auto hole = next; at < end; ++hole) {
      const std::uint64_t stop = hole == open.end() ? end : std::min(end, hole->base);
      if (stop > at) found.push_back({at, stop - at});
      if (hole == open.end()) break;
      at = std::max(at, hole->base + hole->bytes);
    }
  }
  if (found.size() > k_most_pieces) {
    std::ranges::sort(found, std::greater(), &AddressRange::bytes);
    found.resize(k_most_pieces);
    std::ranges::sort(found, {}, &AddressRange::base);
  }
  m_guarded = std::move(found);
}

std::vector<Guard::Piece> Guard::cut(std::uint64_t base, std::uint64_t bytes) const {
  std::vector<Piece> pieces;
  std::uint64_t at = base;
  const std::uint64_t end = base + bytes;
  for (const AddressRange& each : m_guarded) {
    const std::uint64_t begin = std::max(each.base, at);
    const std::uint64_t stop = std::min(each.base + each.bytes, end);
    if (begin >= stop) continue;
    if (begin > at) pieces.push_back({at, begin - at, false});
    pieces.push_back({begin, stop - begin, true});
    at = stop;
  }
  if (at < end) pieces.push_back({at, end - at, false});
  return pieces;
}

}  // namespace kerncap::replay

#include "softgpu/device/svm.hpp"

#include <algorithm>
#include <cerrno>

namespace kerncap::softgpu {

namespace {

[[nodiscard]] Rights without_write(Rights rights) noexcept {
  return static_cast<Rights>(static_cast<unsigned>(rights) & ~static_cast<unsigned>(Rights::write));
}

}  // namespace

const Gpu* SvmRanges::gpu(std::uint32_t id) const noexcept {
  const auto found = std::find_if(m_gpus.begin(), m_gpus.end(), [&](const auto& g) { return g->id == id; });
  return found == m_gpus.end() ? nullptr : found->get();
}

bool SvmRanges::is_location(std::uint32_t value) const noexcept {
  return value == KFD_IOCTL_SVM_LOCATION_SYSMEM || value == KFD_IOCTL_SVM_LOCATION_UNDEFINED || gpu(value) != nullptr;
}

int SvmRanges::apply(Attributes& attributes, const kfd_ioctl_svm_attribute& attribute) const {
  const std::uint32_t value = attribute.value;
  switch (attribute.type) {
    case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
      if (!is_location(value)) return -EINVAL;
      attributes.preferred_location = value;
      return 0;
    case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
      if (!is_location(value)) return -EINVAL;
      attributes.prefetch_location = value;
      return 0;
    case KFD_IOCTL_SVM_ATTR_ACCESS:
    case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
    case KFD_IOCTL_SVM_ATTR_NO_ACCESS: {
      const Gpu* which = gpu(value);
      if (which == nullptr) return -EINVAL;
      const std::uint32_t bit = 1U << which->index;
      attributes.access &= ~bit;
      attributes.access_in_place &= ~bit;
      if (attribute.type == KFD_IOCTL_SVM_ATTR_ACCESS) attributes.access |= bit;
      if (attribute.type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE) attributes.access_in_place |= bit;
      return 0;
    }
    case KFD_IOCTL_SVM_ATTR_SET_FLAGS: attributes.flags |= value; return 0;
    case KFD_IOCTL_SVM_ATTR_CLR_FLAGS: attributes.flags &= ~value; return 0;
    case KFD_IOCTL_SVM_ATTR_GRANULARITY: attributes.granularity = std::min(value & 0xFF, 63U); return 0;
    default: return -EINVAL;
  }
}

void SvmRanges::split(std::uint64_t at) {
  const auto after = m_ranges.upper_bound(at);
  if (after == m_ranges.begin()) return;
  const auto range = std::prev(after);
  if (range->first == at || range->second.end <= at) return;
  m_ranges.emplace(at, range->second);
  range->second.end = at;
}

void SvmRanges::map(std::uint64_t begin, const Range& range, const Attributes& before, std::span<const HostMapping> mappings) {
  const std::uint32_t reachable = range.attributes.access | range.attributes.access_in_place;
  const std::uint32_t was_reachable = before.access | before.access_in_place;
  Rights rights = Rights::read;
  if ((range.attributes.flags & KFD_IOCTL_SVM_FLAG_GPU_RO) == 0) rights = rights | Rights::write;
  if ((range.attributes.flags & KFD_IOCTL_SVM_FLAG_GPU_EXEC) != 0) rights = rights | Rights::execute;
  for (const auto& each : m_gpus) {
    const std::uint32_t bit = 1U << each->index;
    if ((reachable & bit) != 0) {
      for (const HostMapping& part : mappings) {
        const std::uint64_t first = std::max(begin, part.begin), last = std::min(range.end, part.end);
        if (first >= last) continue;
        // No write right of the program's, none of the GPU's; code needs no right to execute of the processor's.
        const bool writable = allows(part.rights, Rights::write);
        if (allows(part.rights, Rights::read)) {
          each->space.map({first, last, 0, writable ? rights : without_write(rights)});
        } else {
          each->space.unmap(first, last);
        }
      }
    } else if ((was_reachable & bit) != 0) {
      each->space.unmap(begin, range.end);
    }
  }
}

int SvmRanges::set(std::uint64_t begin, std::uint64_t size_bytes,
                   std::span<const kfd_ioctl_svm_attribute> attributes, std::span<const HostMapping> mappings) {
  if (size_bytes == 0 || (begin | size_bytes) % 4096 != 0) return -EINVAL;
  Attributes probe;
  for (const auto& attribute : attributes) {
    if (const int error = apply(probe, attribute)) return error;
  }
  const std::lock_guard lock(m_mutex);
  const std::uint64_t end = begin + size_bytes;
  split(begin);
  split(end);
  // Cover the holes, so that what follows sees ranges only.
  for (std::uint64_t at = begin; at < end;) {
    const auto next = m_ranges.lower_bound(at);
    const std::uint64_t next_begin = next == m_ranges.end() ? end : std::min(next->first, end);
    if (next_begin > at) m_ranges.emplace(at, Range{next_begin, {}});
    at = m_ranges.find(at)->second.end;
  }
  for (auto it = m_ranges.find(begin); it != m_ranges.end() && it->first < end; ++it) {
    const Attributes before = it->second.attributes;
    for (const auto& attribute : attributes) (void)apply(it->second.attributes, attribute);
    map(it->first, it->second, before, mappings);
  }
  return 0;
}

int SvmRanges::get(std::uint64_t begin, std::uint64_t size_bytes,
                   std::span<kfd_ioctl_svm_attribute> attributes) const {
  if (size_bytes == 0 || (begin | size_bytes) % 4096 != 0) return -EINVAL;
  const std::lock_guard lock(m_mutex);
  const std::uint64_t end = begin + size_bytes;
  std::vector<Attributes> parts;
  std::uint64_t covered = begin;
  auto it = m_ranges.upper_bound(begin);
  if (it != m_ranges.begin() && std::prev(it)->second.end > begin) --it;
  for (; it != m_ranges.end() && it->first < end; ++it) {
    if (it->first > covered) parts.emplace_back();
    parts.push_back(it->second.attributes);
    covered = it->second.end;
  }
  if (covered < end) parts.emplace_back();

  const auto common = [&](auto member) {
    const std::uint32_t first = parts.front().*member;
    const bool same = std::all_of(parts.begin(), parts.end(), [&](const Attributes& a) { return a.*member == first; });
    return same ? first : static_cast<std::uint32_t>(KFD_IOCTL_SVM_LOCATION_UNDEFINED);
  };
  for (auto& attribute : attributes) {
    switch (attribute.type) {
      case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC: attribute.value = common(&Attributes::preferred_location); break;
      case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC: attribute.value = common(&Attributes::prefetch_location); break;
      case KFD_IOCTL_SVM_ATTR_ACCESS: {
        const Gpu* which = gpu(attribute.value);
        if (which == nullptr) return -EINVAL;
        const std::uint32_t bit = 1U << which->index;
        bool in_place = true, access = true;
        for (const Attributes& part : parts) {
          in_place &= (part.access_in_place & bit) != 0;
          access &= ((part.access | part.access_in_place) & bit) != 0;
        }
        attribute.type = in_place ? KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
                         : access ? KFD_IOCTL_SVM_ATTR_ACCESS
                                  : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
        break;
      }
      case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
        attribute.value = ~0U;
        for (const Attributes& part : parts) attribute.value &= part.flags;
        break;
      case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
        attribute.value = ~0U;
        for (const Attributes& part : parts) attribute.value &= ~part.flags;
        break;
      case KFD_IOCTL_SVM_ATTR_GRANULARITY:
        attribute.value = 63;
        for (const Attributes& part : parts) attribute.value = std::min(attribute.value, part.granularity);
        break;
      default: return -EINVAL;
    }
  }
  return 0;
}

}  // namespace kerncap::softgpu

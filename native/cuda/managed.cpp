// By the program's advice, and where that leaves it open by where its pages are: asked before anything is copied, as copies
// move pages.
#include "cuda/managed.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "core/unique_fd.hpp"
#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::uint64_t k_page = 4096;
constexpr std::uint64_t k_most_looked_at = 64;

template <typename Value>
bool ask(Value& value, CUmem_range_attribute what, const Allocation& managed) noexcept {
  return driver().cuMemRangeGetAttribute(&value, sizeof value, what, managed.base, managed.bytes) == CUDA_SUCCESS;
}

bool is_mapped_by(std::uint32_t device, const Allocation& managed) noexcept {
  int devices[64];
  if (!ask(devices, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed)) return false;
  return std::find(std::begin(devices), std::end(devices), static_cast<int>(device)) != std::end(devices);
}

// Whether most pages are the host's: those are in the process's page table.
bool is_on_host(const Allocation& managed) noexcept {
  const core::UniqueFd table(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const std::uint64_t pages = (managed.bytes + k_page - 1) / k_page;
  const std::uint64_t step = std::max<std::uint64_t>(1, pages / k_most_looked_at);
  std::uint64_t looked_at = 0;
  std::uint64_t present = 0;
  for (std::uint64_t page = 0; page < pages; page += step) {
    std::uint64_t entry = 0;
    const auto at = static_cast<off_t>((managed.base / k_page + page) * sizeof entry);
    if (::pread(table.get(), &entry, sizeof entry, at) != sizeof entry) return false;
    ++looked_at;
    present += entry >> 63;
  }
  return 2 * present > looked_at;
}

}  // namespace

std::uint32_t managed_flags(const Allocation& managed, std::uint32_t device) noexcept {
  CUmemLocationType preferred = CU_MEM_LOCATION_TYPE_NONE;
  int read_mostly = 0;
  if (!ask(preferred, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, managed)) preferred = CU_MEM_LOCATION_TYPE_NONE;
  if (!ask(read_mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed)) read_mostly = 0;
  std::uint32_t flags = read_mostly != 0 ? capture::k_region_read_mostly : 0;
  const bool is_free = preferred == CU_MEM_LOCATION_TYPE_NONE;
  const bool prefers_host = !is_free && preferred != CU_MEM_LOCATION_TYPE_DEVICE;
  // Pages that nobody has a preference for come to the device when a kernel touches them, unless it has them mapped.
  if (prefers_host || (is_free && is_mapped_by(device, managed) && is_on_host(managed))) flags |= capture::k_region_stays_on_host;
  return flags;
}

}  // namespace kerncap::cuda

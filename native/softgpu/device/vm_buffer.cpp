#include "softgpu/device/vm_buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace kerncap::softgpu {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, VmBuffer*> buffers;
  std::uint32_t next = 1;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

VmBuffer::VmBuffer() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  m_number = all.next++;
  all.buffers.emplace(m_number, this);
}

VmBuffer::~VmBuffer() {
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.buffers.erase(m_number);
  }
  for (const Mapping& mapping : m_mappings) gpu->space.unmap(mapping.begin, mapping.end);
  if (m_host != nullptr) munmap(m_host, pages->size_bytes());
}

VmBuffer* VmBuffer::by_number(std::uint32_t number) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.buffers.find(number);
  return found == all.buffers.end() ? nullptr : found->second;
}

bool VmBuffer::map(std::uint64_t va, std::uint64_t offset, std::uint64_t size_bytes, Rights rights) {
  if (va % k_page_bytes != 0 || offset > pages->size_bytes() || size_bytes > pages->size_bytes() - offset) return false;
  const std::uint64_t end = va + (size_bytes + k_page_bytes - 1) / k_page_bytes * k_page_bytes;
  const auto host = reinterpret_cast<std::uint64_t>(pages->host() + offset);
  gpu->space.map({va, end, host - va, rights});
  m_mappings.push_back({va, end});
  return true;
}

void VmBuffer::unmap(std::uint64_t va, std::uint64_t size_bytes) {
  const std::uint64_t end = va + (size_bytes + k_page_bytes - 1) / k_page_bytes * k_page_bytes;
  gpu->space.unmap(va, end);
  std::erase_if(m_mappings, [&](const Mapping& mapping) { return mapping.begin >= va && mapping.end <= end; });
}

void* VmBuffer::map_for_host() noexcept {
  if (m_host == nullptr) {
    void* host = mmap(nullptr, pages->size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, pages->file().fd(),
                      static_cast<off_t>(pages->offset()));
    if (host != MAP_FAILED) m_host = host;
  }
  return m_host;
}

}  // namespace kerncap::softgpu

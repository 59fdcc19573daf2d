// Memory of the HSA driver: placed at the captured addresses, as the captured kinds.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/hex.hpp"
#include "hsa/driver/hsa_driver.hpp"

namespace kerncap::hsa {
namespace {

using core::Error;
using core::ErrorCode;
using core::hex;
using core::Result;
using replay::Kind;

constexpr std::uint64_t k_zeros_bytes = 16 << 20;

std::string span_of(const replay::Range& range) { return hex(range.base) + "-" + hex(range.base + range.bytes); }

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// The flags of the pool of a device that memory of this kind comes from.
std::uint32_t pool_flags(Kind kind) {
  switch (kind) {
    case Kind::host_coarse:
    case Kind::host_pinned:
    case Kind::host_registered:
    case Kind::managed:
    case Kind::kernarg:
    case Kind::device_fine: return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    case Kind::device_extended_fine: return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED;
    default: return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
  }
}

}  // namespace

const ReplayDevice& HsaDriver::device_of(std::uint32_t captured) const {
  const std::uint32_t index = captured == replay::k_no_device ? m_plan->kernel_device : captured;
  return m_machine.devices[m_plan->actual_device(index)];
}

std::vector<hsa_agent_t> HsaDriver::agents_of(std::uint64_t access) const {
  std::vector<hsa_agent_t> agents;
  for (std::uint32_t captured = 0; captured < 64; ++captured) {
    if ((access >> captured & 1) == 0 || m_plan->actual_device(captured) >= m_machine.devices.size()) continue;
    agents.push_back(device_of(captured).agent);
  }
  return agents;
}

Result<void> HsaDriver::place(const replay::Range& range) {
  return range.first->on_host() ? place_on_host(range) : place_on_device(range);
}

Result<void> HsaDriver::place_on_device(const replay::Range& range) {
  void* got = nullptr;
  const hsa_status_t status = m_runtime.hsa_amd_vmem_address_reserve(&got, range.bytes, range.base, 0);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "reserving " + span_of(range), status);
  if (got != pointer(range.base)) {
    return Error{ErrorCode::device, "ROCr would place " + span_of(range) + " of the capture at " +
                                        hex(reinterpret_cast<std::uint64_t>(got)) + " instead"};
  }
  if (Result<void> mapped = map_pieces(range); !mapped) return mapped;
  // Two mappings of one piece of memory would be filled by two threads at the same time.
  const bool reached = m_reach_devices && device_of(range.first->device).is_software() && range.first->piece == 0;
  if (reached) note_reached(range, true);
  Result<void> granted = grant(range, HSA_ACCESS_PERMISSION_RW);
  if (granted && reached && is_touched(range.base, range.base + range.bytes)) m_touched.push_back({range.base, range.bytes});
  return granted;
}

Result<void> HsaDriver::map(const replay::Range& range) {
  const Result<hsa_amd_vmem_alloc_handle_t> handle = physical_memory(range);
  if (!handle) return handle.error();
  const hsa_status_t status = m_runtime.hsa_amd_vmem_map(pointer(range.base), range.bytes, 0, handle.value(), 0);
  return status == HSA_STATUS_SUCCESS ? Result<void>() : runtime_error(m_runtime, "mapping " + span_of(range), status);
}

// One handle for each range, but for mappings of the same physical memory: what is written through one address is there
// at the other.
Result<hsa_amd_vmem_alloc_handle_t> HsaDriver::physical_memory(const replay::Range& range) {
  const replay::Region& region = *range.first;
  if (const auto known = m_pieces.find(region.piece); region.piece != 0 && known != m_pieces.end()) return known->second;
  const ReplayDevice& owner = device_of(region.device);
  const ReplayPool* pool = owner.pool(pool_flags(region.kind));
  if (pool == nullptr) pool = owner.pool(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
  if (pool == nullptr) return Error{ErrorCode::unsupported, "no memory pool for " + span_of(range)};
  std::uint64_t bytes = range.bytes;
  for (const replay::Region& other : m_plan->regions) {
    if (region.piece != 0 && other.piece == region.piece) bytes = std::max(bytes, other.bytes);
  }
  hsa_amd_vmem_alloc_handle_t handle{};
  const hsa_status_t status = m_runtime.hsa_amd_vmem_handle_create(pool->handle, bytes, MEMORY_TYPE_NONE, 0, &handle);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "allocating memory for " + span_of(range), status);
  if (region.piece != 0) m_pieces.emplace(region.piece, handle);
  return handle;
}

Result<void> HsaDriver::grant(const replay::Range& range, hsa_access_permission_t right) {
  const replay::Region& region = *range.first;
  const hsa_agent_t owner = device_of(region.device).agent;
  std::vector<hsa_amd_memory_access_desc_t> rights;
  for (const hsa_agent_t agent : agents_of(region.access)) rights.push_back({right, agent});
  const bool owner_listed = std::any_of(rights.begin(), rights.end(), [&](const hsa_amd_memory_access_desc_t& each) {
    return each.agent_handle.handle == owner.handle;
  });
  if (!owner_listed) rights.push_back({right, owner});  // it does our copies
  if (in_place(range.base, range.bytes).memory != nullptr) rights.push_back({HSA_ACCESS_PERMISSION_RW, m_machine.host.agent});
  const hsa_status_t status =
      m_runtime.hsa_amd_vmem_set_access(pointer(range.base), range.bytes, rights.data(), rights.size());
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "access to " + span_of(range), status);
  return {};
}

Result<void> HsaDriver::seal(const std::vector<replay::Range>& ranges) {
  if (Result<void> settled = settle(); !settled) return settled;
  for (const replay::Range& range : ranges) {
    const bool sealed = !range.is_code() && !range.first->on_host() &&
                        (range.first->flags & replay::k_flag_read_only) != 0;
    if (!sealed) continue;
    if (Result<void> granted = grant(range, HSA_ACCESS_PERMISSION_RO); !granted) return granted;
  }
  return {};
}

Result<void> HsaDriver::place_on_host(const replay::Range& range) {
  void* got = ::mmap(pointer(range.base), range.bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != pointer(range.base)) {
    return Error{ErrorCode::device, "cannot map host memory at " + span_of(range) + ": " + std::strerror(errno)};
  }
  std::vector<hsa_agent_t> agents = agents_of(range.first->access);
  if (range.first->kind == Kind::managed) {
    std::vector<hsa_amd_svm_attribute_pair_t> attributes;
    for (const hsa_agent_t agent : agents) {
      attributes.push_back({HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE, agent.handle});
    }
    const hsa_status_t status =
        m_runtime.hsa_amd_svm_attributes_set(got, range.bytes, attributes.data(), attributes.size());
    if (status == HSA_STATUS_SUCCESS) {
      note_reached(range, true);
      return {};
    }
  }
  void* seen = nullptr;
  const hsa_status_t status =
      m_runtime.hsa_amd_memory_lock(got, range.bytes, agents.data(), static_cast<int>(agents.size()), &seen);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "pinning " + span_of(range), status);
  if (seen != got) {
    // Without the driver's SVM, a GPU never has registered memory where the processor has it.
    m_runtime.hsa_amd_memory_unlock(got);
    ::munmap(got, range.bytes);
    if (Result<void> placed = place_on_device(range); !placed) {
      return Error{placed.error().code, placed.error().message + "; it is host memory, which lies on the GPU here, as its driver has no SVM"};
    }
    if (m_opened.stand_ins.empty()) {
      m_opened.stand_ins.push_back("host memory lies on the GPU here, as its driver has no SVM: times may differ");
    }
    return {};
  }
  note_reached(range, true);
  return {};
}

Result<void> HsaDriver::make_staging() {
  const replay::StagingShape shape = replay::staging_shape(*m_plan);
  const Result<std::byte*> memory =
      allocate(m_machine.host, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, shape.count * shape.bytes);
  if (!memory) return memory.error();
  m_opened.staging = shape;
  for (std::size_t i = 0; i < shape.count; ++i) {
    Staging staging{memory.value() + i * shape.bytes, {}};
    const hsa_status_t status = m_runtime.hsa_signal_create(0, 0, nullptr, &staging.done);
    if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "creating a signal", status);
    m_staging.push_back(staging);
  }
  return {};
}

Result<void> HsaDriver::wait_for(hsa_signal_t done, const char* what) {
  // The stage that started this process sets the time limit; here only a fault ends the wait.
  constexpr std::uint64_t k_look_every_ns = 50'000'000;
  // ROCr spins for 0.2 ms before each wait. The software GPU's threads, and other replays, need that processor.
  constexpr long k_first_nap_ns = 20'000;
  constexpr long k_longest_nap_ns = 500'000;
  const bool naps = m_device->is_software();
  long nap_ns = k_first_nap_ns;
  hsa_signal_value_t left = naps ? m_runtime.hsa_signal_load_scacquire(done) : 1;
  while (left >= 1) {
    if (naps) {
      const timespec nap{0, nap_ns};
      ::nanosleep(&nap, nullptr);
      nap_ns = std::min(nap_ns + nap_ns / 4, k_longest_nap_ns);
      left = m_runtime.hsa_signal_load_scacquire(done);
    } else {
      left = m_runtime.hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, k_look_every_ns,
                                                 HSA_WAIT_STATE_BLOCKED);
    }
    if (const std::string why = fault(); !why.empty()) return Error{ErrorCode::device, why};
  }
  if (left < 0 && what != nullptr) return Error{ErrorCode::device, std::string(what) + " failed"};
  return {};
}

Result<void> HsaDriver::settle(std::size_t buffer) {
  return wait_for(m_staging[buffer].done, "a transfer to or from the device");
}

Result<void> HsaDriver::settle() {
  for (std::size_t i = 0; i < m_staging.size(); ++i) {
    if (Result<void> settled = settle(i); !settled) return settled;
  }
  return {};
}

// Regions of host memory may go on from one range into the next.
void HsaDriver::note_reached(const replay::Range& range, bool is_zero) {
  if (!m_reached.empty()) {
    auto& [base, last] = *m_reached.rbegin();
    if (base + last.bytes == range.base && last.is_zero == is_zero) {
      last.bytes += range.bytes;
      return;
    }
  }
  m_reached.emplace(range.base, Reached{range.bytes, is_zero});
}

replay::Driver::InPlace HsaDriver::in_place(std::uint64_t address, std::uint64_t bytes) const {
  auto found = m_reached.upper_bound(address);
  if (found == m_reached.begin()) return {};
  --found;
  const Reached& range = found->second;
  if (bytes > range.bytes || address - found->first > range.bytes - bytes) return {};
  const bool is_touched = std::any_of(m_touched.begin(), m_touched.end(), [&](const replay::AddressRange& each) {
    return address < each.base + each.bytes && each.base < address + bytes;
  });
  return {static_cast<std::byte*>(pointer(address)), range.is_zero && !is_touched};
}

Result<std::byte*> HsaDriver::staging(std::size_t buffer) {
  if (Result<void> settled = settle(buffer); !settled) return settled.error();
  return m_staging[buffer].memory;
}

Result<void> HsaDriver::send(std::size_t buffer, const replay::Region& region, std::uint64_t address,
                             std::uint64_t bytes) {
  const Staging& staging = m_staging[buffer];
  m_runtime.hsa_signal_store_relaxed(staging.done, 1);
  // Agents are given, as the runtime takes an address of hsa_amd_vmem_* for ordinary host memory otherwise.
  const hsa_status_t status = m_runtime.hsa_amd_memory_async_copy(
      pointer(address), device_of(region.device).agent, staging.memory, m_machine.host.agent, bytes, 0, nullptr,
      staging.done);
  return status == HSA_STATUS_SUCCESS ? Result<void>() : runtime_error(m_runtime, "restoring " + hex(address), status);
}

// From zeros on the device: hsa_amd_memory_fill does not take addresses of hsa_amd_vmem_*.
Result<void> HsaDriver::clear(const replay::Region& region, std::uint64_t address, std::uint64_t bytes) {
  const ReplayDevice& owner = device_of(region.device);
  std::byte*& zeros = m_zeros[owner.agent.handle];
  if (zeros == nullptr) {
    const Result<std::byte*> memory = allocate(owner, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, k_zeros_bytes);
    if (!memory) return memory.error();
    const hsa_status_t filled = m_runtime.hsa_amd_memory_fill(memory.value(), 0, k_zeros_bytes / 4);
    if (filled != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "making zeros", filled);
    zeros = memory.value();
  }
  hsa_signal_t done{};
  m_runtime.hsa_signal_create(static_cast<hsa_signal_value_t>((bytes + k_zeros_bytes - 1) / k_zeros_bytes), 0, nullptr,
                              &done);
  for (std::uint64_t at = 0; at < bytes; at += k_zeros_bytes) {
    const hsa_status_t status =
        m_runtime.hsa_amd_memory_async_copy(pointer(address + at), owner.agent, zeros, owner.agent,
                                            std::min(k_zeros_bytes, bytes - at), 0, nullptr, done);
    if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "clearing " + hex(address), status);
  }
  Result<void> cleared = wait_for(done, "clearing memory of the device");
  m_runtime.hsa_signal_destroy(done);
  return cleared;
}

Result<void> HsaDriver::read(const replay::Region& region, std::uint64_t address, std::span<std::byte> data) {
  if (Result<void> settled = settle(); !settled) return settled;
  if (const InPlace here = in_place(address, data.size()); here.memory != nullptr) {
    std::memcpy(data.data(), here.memory, data.size());
    return {};
  }
  if (const std::byte* const code = m_readable_code.find(address, data.size()); code != nullptr) {
    std::memcpy(data.data(), code, data.size());
    return {};
  }
  const hsa_agent_t agent = device_of(region.device).agent;
  const Staging& staging = m_staging[0];
  for (std::size_t done = 0; done < data.size();) {
    const std::size_t piece = std::min(m_opened.staging.bytes, data.size() - done);
    m_runtime.hsa_signal_store_relaxed(staging.done, 1);
    const hsa_status_t status =
        m_runtime.hsa_amd_memory_async_copy(staging.memory, m_machine.host.agent, pointer(address + done), agent,
                                            piece, 0, nullptr, staging.done);
    if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "reading " + hex(address), status);
    if (Result<void> settled = settle(0); !settled) return settled;
    std::memcpy(&data[done], staging.memory, piece);
    done += piece;
  }
  return {};
}

Result<std::byte*> HsaDriver::allocate(const ReplayDevice& owner, std::uint32_t flags, std::uint64_t bytes) {
  const ReplayPool* pool = owner.pool(flags);
  if (pool == nullptr) return Error{ErrorCode::device, "no memory pool of the wanted kind"};
  void* memory = nullptr;
  hsa_status_t status = m_runtime.hsa_amd_memory_pool_allocate(pool->handle, bytes, 0, &memory);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "allocating memory", status);
  if (owner.agent.handle == m_machine.host.agent.handle) {
    std::vector<hsa_agent_t> all;       // each device's own engine fills and reads its memory
    for (const ReplayDevice& device : m_machine.devices) all.push_back(device.agent);
    status = m_runtime.hsa_amd_agents_allow_access(static_cast<std::uint32_t>(all.size()), all.data(), nullptr, memory);
    if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "sharing memory", status);
  }
  return static_cast<std::byte*>(memory);
}

Result<void> HsaDriver::save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>& parts) {
  std::vector<replay::AddressRange> in_place_parts;
  for (const auto& [region, part] : parts) {
    const std::uint64_t address = region->base + part.offset;
    if (m_remembered.cover(address, part.bytes)) continue;
    if (m_device->is_software() && in_place(address, part.bytes).memory != nullptr) {
      m_saved_in_place.add(address, part.bytes);
      in_place_parts.push_back({address, part.bytes});
      continue;
    }
    Saved saved{in_place(address, part.bytes).memory != nullptr, {}, region->base + part.offset, part.bytes, nullptr};
    if (saved.on_host) {
      saved.copy = new std::byte[part.bytes];
    } else {
      const ReplayDevice& owner = device_of(region->device);
      saved.agent = owner.agent;
      const Result<std::byte*> memory = allocate(owner, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, part.bytes);
      if (!memory) return memory.error();
      saved.copy = memory.value();
    }
    m_saved.push_back(saved);
  }
  if (Result<void> copied = copy(true); !copied || in_place_parts.empty()) return copied;
  if (!m_saved_in_place.keep()) return Error{ErrorCode::no_space, "no room for a copy of the write set"};
  for (const replay::AddressRange& part : in_place_parts) (void)m_saved_in_place.cover(part.base, part.bytes);
  return {};
}

void HsaDriver::note_write(std::uint64_t address, std::uint64_t bytes) {
  m_remembered.note_write(address, bytes);
  m_saved_in_place.note_write(address, bytes);
}

Result<void> HsaDriver::restore_saved() {
  Result<void> copied = copy(false);
  if (!copied) return copied;
  m_saved_in_place.put_back();
  m_remembered.put_back();
  return {};
}

Result<std::vector<const replay::Region*>> HsaDriver::remember(const std::vector<const replay::Region*>& regions) {
  if (Result<void> settled = settle(); !settled) return settled.error();
  for (const replay::Region* region : m_remembered.is_empty() ? regions : std::vector<const replay::Region*>()) {
    if (region->bytes == 0 || in_place(region->base, region->bytes).memory == nullptr) continue;
    m_remembered.add(region->base, region->bytes);
    m_remembered_regions.push_back(region);
  }
  if (!m_remembered.keep()) m_remembered_regions.clear();
  return m_remembered_regions;
}

Result<std::vector<std::uint32_t>> HsaDriver::changed(std::uint64_t chunk_bytes) {
  if (Result<void> settled = settle(); !settled) return settled.error();
  return m_remembered.changed(chunk_bytes);
}

Result<void> HsaDriver::copy(bool to_saved) {
  if (Result<void> settled = settle(); !settled) return settled;
  hsa_signal_t done{};
  m_runtime.hsa_signal_create(0, 0, nullptr, &done);
  hsa_signal_value_t expected = 0;
  for (const Saved& saved : m_saved) expected += saved.on_host ? 0 : 1;
  m_runtime.hsa_signal_store_relaxed(done, expected);
  Result<void> result;
  for (const Saved& saved : m_saved) {
    void* to = to_saved ? static_cast<void*>(saved.copy) : pointer(saved.address);
    const void* from = to_saved ? pointer(saved.address) : static_cast<const void*>(saved.copy);
    if (saved.on_host) {
      std::memcpy(to, from, saved.bytes);
      continue;
    }
    const hsa_status_t status =
        m_runtime.hsa_amd_memory_async_copy(to, saved.agent, from, saved.agent, saved.bytes, 0, nullptr, done);
    if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "copying the write set", status);
  }
  Result<void> copied = wait_for(done, "copying the write set");
  m_runtime.hsa_signal_destroy(done);
  return copied;
}

}  // namespace kerncap::hsa

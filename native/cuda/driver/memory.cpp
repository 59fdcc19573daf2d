// Memory of the CUDA driver: placed at the captured addresses.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/hex.hpp"
#include "cuda/driver/cuda_driver.hpp"
#include "replay/address_space.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::hex;
using core::Result;
using replay::Kind;

std::string span_of(std::uint64_t base, std::uint64_t bytes) { return hex(base) + "-" + hex(base + bytes); }

}  // namespace

Result<void> CudaDriver::reserve(const replay::Plan& plan) {
  m_slack = slack_of(plan.regions, m_granule);
  m_guard = replay::Guard(plan, m_granule, is_reserved);
  allocate_managed(plan);
  for (const Reservation& wanted : reservations_of(plan.regions, m_managed)) {
    CUdeviceptr got = 0;
    const std::string what = "reserving " + span_of(wanted.base, wanted.bytes);
    const CUresult status = driver().cuMemAddressReserve(&got, wanted.bytes, 0, wanted.base, 0);
    if (status == CUDA_SUCCESS && got == wanted.base) {
      m_reservations.push_back(wanted);
      continue;
    }
    if (status == CUDA_SUCCESS) driver().cuMemAddressFree(got, wanted.bytes);
    const bool only_variables = std::all_of(plan.regions.begin(), plan.regions.end(), [&](const replay::Region& region) {
      const auto& known = plan.variables;
      const bool own = std::any_of(known.begin(), known.end(),
                                   [&](const replay::Variable& variable) { return variable.address == region.base; });
      return own || region.end() <= wanted.base || region.base >= wanted.end();
    });
    // Variables are restored by name where the module is now. Only a pointer to them would need their old address,
    // and a kernel that follows one faults rather than reading something else.
    if (only_variables && plan.fixed.empty() && plan.variant_fixed.empty()) {
      void* shadow = ::mmap(nullptr, wanted.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1, 0);
      if (shadow == MAP_FAILED) return Error{ErrorCode::no_space, "no memory: " + std::string(std::strerror(errno))};
      m_absent.push_back({wanted, static_cast<std::byte*>(shadow)});
      continue;
    }
    if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe(what, status)};
    m_crowded_out = true;
    return Error{ErrorCode::device, "the addresses " + span_of(wanted.base, wanted.bytes) +
                                        " of the capture are taken here, by " +
                                        replay::holder_of(wanted.base, wanted.bytes) + "; the driver offers " +
                                        hex(got) + " instead"};
  }
  return {};
}

Result<void> CudaDriver::place(const replay::Range& range) {
  if (!is_reserved(*range.first)) return place_registered(range);
  if (shadow_of(range.base) != nullptr) return {};
  const std::uint64_t begin = range.base / m_granule * m_granule;
  const std::uint64_t end = (range.base + range.bytes + m_granule - 1) / m_granule * m_granule;
  // Runs of granules that have no memory yet, each in one piece.
  for (std::uint64_t at = begin; at < end;) {
    if (m_mapped.contains(at)) {
      at += m_granule;
      continue;
    }
    std::uint64_t stop = at;
    while (stop < end && !m_mapped.contains(stop)) m_mapped.insert(stop), stop += m_granule;
    const bool is_there = is_within(m_managed, at);
    if (Result<void> mapped = is_there ? Result<void>() : map_pieces(at, stop - at, *range.first); !mapped) return mapped;
    if (Result<void> filled = fill_slack(at, stop); !filled) return filled;
    at = stop;
  }
  return {};
}

Result<void> CudaDriver::map(std::uint64_t base, std::uint64_t bytes, const replay::Region& region) {
  Result<CUmemGenericAllocationHandle> handle = physical_memory(bytes, region);
  if (!handle) return handle.error();
  const CUresult status = driver().cuMemMap(base, bytes, 0, handle.value(), 0);
  if (status != CUDA_SUCCESS) return checked("mapping " + span_of(base, bytes), status);
  m_mappings.push_back({base, bytes});
  return grant(base, bytes, region, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

// What is written through one address of a piece is there at the other.
Result<CUmemGenericAllocationHandle> CudaDriver::physical_memory(std::uint64_t bytes, const replay::Region& region) {
  if (const auto known = m_pieces.find(region.piece); region.piece != 0 && known != m_pieces.end()) return known->second;
  for (const replay::Region& other : m_plan->regions) {
    if (region.piece != 0 && other.piece == region.piece) bytes = std::max(bytes, other.bytes);
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(region);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult status = driver().cuMemCreate(&handle, bytes, &properties, 0);
  if (status != CUDA_SUCCESS) return checked("allocating memory for " + span_of(region.base, bytes), status).error();
  m_handles.push_back(handle);
  if (region.piece != 0) m_pieces.emplace(region.piece, handle);
  return handle;
}

Result<void> CudaDriver::grant(std::uint64_t base, std::uint64_t bytes, const replay::Region& region,
                               CUmemAccess_flags rights) {
  std::vector<CUmemAccessDesc> access{{{CU_MEM_LOCATION_TYPE_DEVICE, {m_device}}, rights}};
  const CUmemLocation location = location_of(region);
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || location.id != m_device) access.push_back({location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  return checked("access to " + span_of(base, bytes),
                 driver().cuMemSetAccess(base, bytes, access.data(), access.size()));
}

CUmemLocation CudaDriver::location_of(const replay::Region& region) const {
  if (is_on_host(region)) return {CU_MEM_LOCATION_TYPE_HOST_NUMA, {m_host_node}};
  if (region.device == replay::k_no_device) return {CU_MEM_LOCATION_TYPE_DEVICE, {m_device}};
  return {CU_MEM_LOCATION_TYPE_DEVICE, {static_cast<int>(m_plan->actual_device(region.device))}};
}

// Kernels reach it over the bus.
bool CudaDriver::is_on_host(const replay::Region& region) {
  return region.kind == Kind::host_pinned || region.kind == Kind::host_coarse || region.is_mapped_host() ||
         (region.kind == Kind::managed && (region.flags & replay::k_flag_stays_on_host) != 0);
}

// Only mappings can have been read-only, and those have granules of their own.
Result<void> CudaDriver::seal(const std::vector<replay::Range>& ranges) {
  if (Result<void> settled = settle_managed(); !settled) return settled;
  for (const replay::Range& range : ranges) {
    if (range.is_code() || (range.first->flags & replay::k_flag_read_only) == 0) continue;
    Result<void> granted = grant(range.base, range.bytes, *range.first, CU_MEM_ACCESS_FLAGS_PROT_READ);
    if (!granted) return granted;
  }
  return {};
}

// Ordinary memory of the process that was pinned: it has to be at its address here, too.
Result<void> CudaDriver::place_registered(const replay::Range& range) {
  void* wanted = reinterpret_cast<void*>(range.base);
  void* got = ::mmap(wanted, range.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                     -1, 0);
  if (got != wanted) {
    return Error{ErrorCode::device, "the host addresses " + span_of(range.base, range.bytes) +
                                        " of the capture are taken here, by " +
                                        replay::holder_of(range.base, range.bytes)};
  }
  const std::string where = span_of(range.base, range.bytes);
  Result<void> pinned = checked("pinning " + where, driver().cuMemHostRegister_v2(got, range.bytes,
                                                                                  CU_MEMHOSTREGISTER_DEVICEMAP));
  if (!pinned) return pinned;
  CUdeviceptr seen = 0;
  pinned = checked("asking for " + where, driver().cuMemHostGetDevicePointer_v2(&seen, got, 0));
  if (pinned && seen != range.base) {
    return Error{ErrorCode::device, "the GPU would see the host memory " + where + " at " + hex(seen) + " instead"};
  }
  if (pinned) m_pinned.push_back({range.base, range.bytes});
  return pinned;
}

Result<void> CudaDriver::make_staging() {
  const replay::StagingShape shape = replay::staging_shape(*m_plan);
  void* memory = nullptr;
  Result<void> made = checked("pinning memory", driver().cuMemAllocHost_v2(&memory, shape.count * shape.bytes));
  if (!made) return made;
  m_opened.staging = shape;
  m_staging.resize(shape.count);
  for (std::size_t i = 0; i < shape.count; ++i) {
    m_staging[i].memory = static_cast<std::byte*>(memory) + i * shape.bytes;
    made = checked("creating an event", driver().cuEventCreate(&m_staging[i].done, CU_EVENT_DISABLE_TIMING));
    if (!made) return made;
  }
  return {};
}

Result<void> CudaDriver::settle() { return checked("waiting for the device", driver().cuStreamSynchronize(m_stream)); }

std::byte* CudaDriver::shadow_of(std::uint64_t address) const {
  for (const Reservation& variable : m_variables) {
    if (variable.base <= address && address < variable.end()) return nullptr;
  }
  for (const Absent& absent : m_absent) {
    if (absent.range.base <= address && address < absent.range.end()) return absent.shadow + (address - absent.range.base);
  }
  return nullptr;
}

replay::Driver::InPlace CudaDriver::in_place(std::uint64_t address, std::uint64_t bytes) const {
  if (std::byte* shadow = shadow_of(address); shadow != nullptr) return {shadow, false};
  for (const Reservation& pinned : m_pinned) {
    if (pinned.base <= address && bytes <= pinned.bytes && address - pinned.base <= pinned.bytes - bytes) {
      return {reinterpret_cast<std::byte*>(address), true};
    }
  }
  return {};
}

Result<std::byte*> CudaDriver::staging(std::size_t buffer) {
  const Staging& staging = m_staging[buffer];
  const CUresult status = driver().cuEventSynchronize(staging.done);
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("a transfer to the device", status)};
  return staging.memory;
}

Result<void> CudaDriver::send(std::size_t buffer, const replay::Region&, std::uint64_t address, std::uint64_t bytes) {
  const Staging& staging = m_staging[buffer];
  CUresult status = driver().cuMemcpyAsync(address, reinterpret_cast<CUdeviceptr>(staging.memory), bytes, m_stream);
  if (status == CUDA_SUCCESS) status = driver().cuEventRecord(staging.done, m_stream);
  return checked("restoring " + hex(address), status);
}

Result<void> CudaDriver::clear(const replay::Region&, std::uint64_t address, std::uint64_t bytes) {
  return checked("clearing " + hex(address), driver().cuMemsetD8Async(address, 0, bytes, m_stream));
}

Result<void> CudaDriver::read(const replay::Region&, std::uint64_t address, std::span<std::byte> data) {
  if (Result<void> settled = settle(); !settled) return settled;
  if (const InPlace here = in_place(address, data.size()); here.memory != nullptr) {
    std::memcpy(data.data(), here.memory, data.size());
    return {};
  }
  const Staging& staging = m_staging[0];
  for (std::size_t done = 0; done < data.size();) {
    const std::size_t piece = std::min(m_opened.staging.bytes, data.size() - done);
    const CUresult status =
        driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(staging.memory), address + done, piece, m_stream);
    if (status != CUDA_SUCCESS) return checked("reading " + hex(address), status);
    if (Result<void> settled = settle(); !settled) return settled;
    std::memcpy(&data[done], staging.memory, piece);
    done += piece;
  }
  return {};
}

Result<void> CudaDriver::save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>& parts) {
  for (const auto& [region, part] : parts) {
    if (shadow_of(region->base) != nullptr) continue;  // no kernel can write there
    Saved saved{region->base + part.offset, 0, part.bytes};
    const CUresult status = driver().cuMemAlloc_v2(&saved.copy, part.bytes);
    if (status != CUDA_SUCCESS) {
      for (const Saved& other : m_saved) driver().cuMemFree_v2(other.copy);
      m_saved.clear();
      return checked("keeping a copy of what the kernel writes", status);
    }
    m_saved.push_back(saved);
  }
  for (const Saved& saved : m_saved) {
    const CUresult status = driver().cuMemcpyAsync(saved.copy, saved.address, saved.bytes, m_stream);
    if (status != CUDA_SUCCESS) return checked("copying the write set", status);
  }
  return settle();
}

Result<void> CudaDriver::restore_saved() {
  for (const Saved& saved : m_saved) {
    const CUresult status = driver().cuMemcpyAsync(saved.address, saved.copy, saved.bytes, m_stream);
    if (status != CUDA_SUCCESS) return checked("restoring the write set", status);
  }
  return {};
}

}  // namespace kerncap::cuda

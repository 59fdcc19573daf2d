// What is allocated is added when the call has returned; what is freed is removed before it does, so that an
// address that is given out again at once is never lost, and put back where the call fails.
#include "cuda/memory_calls.hpp"

#include <algorithm>
#include <atomic>

#include "cuda/api.hpp"
#include "cuda/streams.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using capture::MemoryKind;

#define KC_ID(name) CUPTI_DRIVER_TRACE_CBID_##name

// cuMemHostAlloc as CUDA 4.0 and later export it. CUPTI's headers up to 13.4 name it, those of 13.5 do not.
constexpr CUpti_CallbackId k_mem_host_alloc_v2 = 271;

constexpr CUpti_CallbackId k_calls[] = {
    KC_ID(cuMemAlloc_v2), KC_ID(cuMemAllocPitch_v2), KC_ID(cuMemFree_v2), KC_ID(cuMemAllocManaged),
    KC_ID(cuMemAllocAsync), KC_ID(cuMemAllocAsync_ptsz), KC_ID(cuMemAllocFromPoolAsync),
    KC_ID(cuMemAllocFromPoolAsync_ptsz), KC_ID(cuMemFreeAsync), KC_ID(cuMemFreeAsync_ptsz), KC_ID(cuMemAllocHost_v2),
    KC_ID(cuMemHostAlloc), k_mem_host_alloc_v2, KC_ID(cuMemFreeHost), KC_ID(cuMemHostRegister),
    KC_ID(cuMemHostRegister_v2), KC_ID(cuMemHostUnregister), KC_ID(cuIpcOpenMemHandle), KC_ID(cuIpcOpenMemHandle_v2),
    KC_ID(cuIpcCloseMemHandle), KC_ID(cuMemPoolImportPointer), KC_ID(cuMemCreate),
    KC_ID(cuMemImportFromShareableHandle), KC_ID(cuMemRetainAllocationHandle), KC_ID(cuMemMap), KC_ID(cuMemUnmap),
    KC_ID(cuMemSetAccess), KC_ID(cuIpcGetMemHandle), KC_ID(cuMemPoolExportPointer), KC_ID(cuMemExportToShareableHandle),
    KC_ID(cuMulticastCreate), KC_ID(cuMulticastAddDevice), KC_ID(cuCtxEnablePeerAccess),
    // For their room alone: no kernel that reads arrays is captured.
    KC_ID(cuArrayCreate_v2), KC_ID(cuArray3DCreate_v2), KC_ID(cuMipmappedArrayCreate),
};

template <typename Parameters>
const Parameters& as(const CUpti_CallbackData& data) noexcept {
  return *static_cast<const Parameters*>(data.functionParams);
}

std::uint64_t number_of_next_call() noexcept {
  static std::atomic<std::uint64_t> s_calls{0};
  return s_calls.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint32_t current_device() noexcept {
  const Inside inside;
  CUdevice device = 0;
  return driver().cuCtxGetDevice(&device) == CUDA_SUCCESS ? static_cast<std::uint32_t>(device) : 0;
}

// Memory of a host's NUMA node is the host's.
std::uint32_t owner_of(const CUmemLocation& location) noexcept {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? static_cast<std::uint32_t>(location.id) : capture::k_no_device;
}

Allocation on_device(const CUpti_CallbackData& data, CUdeviceptr base, std::uint64_t bytes, MemoryKind kind) noexcept {
  Allocation made;
  made.base = base;
  made.bytes = bytes;
  made.kind = kind;
  made.context = reinterpret_cast<std::uint64_t>(data.context);
  made.device = current_device();
  // Without peer access a device sees its own memory only; pools and IPC follow the same rule here.
  made.access = std::uint64_t{1} << made.device;
  return made;
}

// Memory that is no device's own: all may reach it.
void give_to_host(Allocation& made) noexcept {
  made.device = capture::k_no_device;
  made.access = capture::k_every_device;
}

Allocation on_host(const CUpti_CallbackData& data, const void* base, std::uint64_t bytes, MemoryKind kind) noexcept {
  Allocation made;
  made.base = reinterpret_cast<std::uint64_t>(base);
  made.bytes = bytes;
  made.kind = kind;
  made.context = reinterpret_cast<std::uint64_t>(data.context);
  made.access = capture::k_every_device;
  return made;
}

void allocated_async(Allocations& allocations, const CUpti_CallbackData& data, CUdeviceptr base, std::uint64_t bytes,
                     CUstream stream) noexcept {
  const Inside inside;
  if (is_recording(stream)) return allocations.add_graph_memory(base, bytes);
  Allocation made = on_device(data, base, bytes, MemoryKind::async_pool);
  // A pool may be of managed memory, the host's, or another GPU's than the stream's.
  CUmemorytype type{};
  unsigned is_managed = 0;
  int owner = 0;
  if (driver().cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, base) == CUDA_SUCCESS && is_managed != 0) {
    made.kind = MemoryKind::managed;
    give_to_host(made);
  } else if (driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base) == CUDA_SUCCESS &&
      type == CU_MEMORYTYPE_HOST) {
    give_to_host(made);
  } else if (driver().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base) == CUDA_SUCCESS && owner >= 0) {
    made.device = static_cast<std::uint32_t>(owner);
    made.access = std::uint64_t{1} << made.device;
  }
  allocations.add(made);
}

// Made by another process, or before we listened.
void add_foreign(Allocations& allocations, CUmemGenericAllocationHandle handle) noexcept {
  const Inside inside;
  CUmemAllocationProp made{};
  const bool is_known = driver().cuMemGetAllocationPropertiesFromHandle(&made, handle) == CUDA_SUCCESS;
  allocations.mappings().add_handle(handle, {.device = is_known ? owner_of(made.location) : current_device()});
}

// Of another process, which alone knows how much it is. Without bytes: the driver does not tell.
Allocation shared(const CUpti_CallbackData& data, CUdeviceptr address) noexcept {
  const Inside inside;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (driver().cuMemGetAddressRange_v2(&base, &bytes, address) != CUDA_SUCCESS) return {};
  return on_device(data, base, bytes, MemoryKind::ipc);
}

void returned(Allocations& allocations, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  switch (call) {
    case KC_ID(cuMemAlloc_v2): {
      const auto& made = as<cuMemAlloc_v2_params>(data);
      return allocations.add(on_device(data, *made.dptr, made.bytesize, MemoryKind::device_coarse));
    }
    case KC_ID(cuMemAllocPitch_v2): {
      const auto& made = as<cuMemAllocPitch_v2_params>(data);
      return allocations.add(on_device(data, *made.dptr, *made.pPitch * made.Height, MemoryKind::device_coarse));
    }
    case KC_ID(cuMemAllocManaged): {
      const auto& made = as<cuMemAllocManaged_params>(data);
      Allocation region = on_device(data, *made.dptr, made.bytesize, MemoryKind::managed);
      give_to_host(region);
      return allocations.add(region);
    }
    case KC_ID(cuMemAllocAsync):
    case KC_ID(cuMemAllocAsync_ptsz): {
      const auto& made = as<cuMemAllocAsync_params>(data);
      const bool own = call == KC_ID(cuMemAllocAsync_ptsz) && made.hStream == nullptr;
      return allocated_async(allocations, data, *made.dptr, made.bytesize, own ? CU_STREAM_PER_THREAD : made.hStream);
    }
    case KC_ID(cuMemAllocFromPoolAsync):
    case KC_ID(cuMemAllocFromPoolAsync_ptsz): {
      const auto& made = as<cuMemAllocFromPoolAsync_params>(data);
      const bool own = call == KC_ID(cuMemAllocFromPoolAsync_ptsz) && made.hStream == nullptr;
      return allocated_async(allocations, data, *made.dptr, made.bytesize, own ? CU_STREAM_PER_THREAD : made.hStream);
    }
    case KC_ID(cuMemAllocHost_v2): {
      const auto& made = as<cuMemAllocHost_v2_params>(data);
      return allocations.add(on_host(data, *made.pp, made.bytesize, MemoryKind::host_pinned));
    }
    case KC_ID(cuMemHostAlloc):
    case k_mem_host_alloc_v2: {
      const auto& made = as<cuMemHostAlloc_params>(data);
      return allocations.add(on_host(data, *made.pp, made.bytesize, MemoryKind::host_pinned));
    }
    case KC_ID(cuMemHostRegister):
    case KC_ID(cuMemHostRegister_v2): {
      const auto& made = as<cuMemHostRegister_v2_params>(data);
      return allocations.add(on_host(data, made.p, made.bytesize, MemoryKind::host_registered));
    }
    case KC_ID(cuIpcOpenMemHandle):
    case KC_ID(cuIpcOpenMemHandle_v2):
      return allocations.add_shared(shared(data, *as<cuIpcOpenMemHandle_v2_params>(data).pdptr));
    case KC_ID(cuMemPoolImportPointer):
      return allocations.add(shared(data, *as<cuMemPoolImportPointer_params>(data).ptr_out));
    case KC_ID(cuMemCreate): {
      const auto& made = as<cuMemCreate_params>(data);
      return allocations.mappings().add_handle(*made.handle, {.device = owner_of(made.prop->location), .is_foreign = false});
    }
    case KC_ID(cuMemImportFromShareableHandle):
      return add_foreign(allocations, *as<cuMemImportFromShareableHandle_params>(data).handle);
    case KC_ID(cuMemRetainAllocationHandle): {
      const auto& made = as<cuMemRetainAllocationHandle_params>(data);
      return allocations.mappings().add_handle_at(*made.handle, reinterpret_cast<std::uint64_t>(made.addr));
    }
    case KC_ID(cuMemMap): {
      const auto& made = as<cuMemMap_params>(data);
      if (!allocations.mappings().knows_handle(made.handle)) add_foreign(allocations, made.handle);
      return allocations.mappings().map(made.ptr, made.size, made.handle);
    }
    case KC_ID(cuMemSetAccess): {
      const auto& made = as<cuMemSetAccess_params>(data);
      for (std::size_t i = 0; i < made.count; ++i) {
        const CUmemAccessDesc& access = made.desc[i];
        if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
        allocations.mappings().set_access(made.ptr, made.size, static_cast<std::uint32_t>(access.location.id),
                                          access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE,
                                          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      }
      return;
    }
    case KC_ID(cuCtxEnablePeerAccess): {
      std::uint32_t peer = 0;
      if (cupti().cuptiGetDeviceId(as<cuCtxEnablePeerAccess_params>(data).peerContext, &peer) != CUPTI_SUCCESS) return;
      return allocations.set_peer_access(current_device(), peer);
    }
    case KC_ID(cuIpcGetMemHandle):
      return allocations.exported(as<cuIpcGetMemHandle_params>(data).dptr);
    case KC_ID(cuMemPoolExportPointer):
      return allocations.exported(as<cuMemPoolExportPointer_params>(data).ptr);
    case KC_ID(cuMemExportToShareableHandle):
      return allocations.mappings().export_handle(as<cuMemExportToShareableHandle_params>(data).handle);
    case KC_ID(cuMulticastCreate):
      return allocations.mappings().add_handle(*as<cuMulticastCreate_params>(data).mcHandle, {.is_multicast = true});
    case KC_ID(cuMulticastAddDevice):  // also of one that another process made
      return allocations.mappings().add_handle(as<cuMulticastAddDevice_params>(data).mcHandle, {.is_multicast = true});
    default:
      return;
  }
}

void entered(Allocations& allocations, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  switch (call) {
    case KC_ID(cuMemFree_v2):
      allocations.remove(as<cuMemFree_v2_params>(data).dptr, *data.correlationData);
      return;
    case KC_ID(cuMemFreeAsync):
    case KC_ID(cuMemFreeAsync_ptsz):
      allocations.remove(as<cuMemFreeAsync_params>(data).dptr, *data.correlationData);
      return;
    case KC_ID(cuMemFreeHost):
      allocations.remove(reinterpret_cast<std::uint64_t>(as<cuMemFreeHost_params>(data).p), *data.correlationData);
      return;
    case KC_ID(cuMemHostUnregister):
      allocations.remove(reinterpret_cast<std::uint64_t>(as<cuMemHostUnregister_params>(data).p), *data.correlationData);
      return;
    case KC_ID(cuIpcCloseMemHandle):
      return allocations.remove_shared(as<cuIpcCloseMemHandle_params>(data).dptr, *data.correlationData);
    case KC_ID(cuMemUnmap):
      return allocations.unmap(as<cuMemUnmap_params>(data).ptr, as<cuMemUnmap_params>(data).size, *data.correlationData);
    default:
      return;
  }
}

}  // namespace

std::span<const CUpti_CallbackId> memory_calls() noexcept { return k_calls; }

namespace {

// At most: no format has more than four bytes a channel. A height or depth of 0 is none.
std::uint64_t array_bytes(std::uint64_t width, std::uint64_t height, std::uint64_t depth, std::uint64_t channels) noexcept {
  return width * std::max<std::uint64_t>(height, 1) * std::max<std::uint64_t>(depth, 1) * channels * 4;
}

}  // namespace

std::uint64_t allocated_bytes(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  switch (call) {
    case KC_ID(cuMemAlloc_v2): return as<cuMemAlloc_v2_params>(data).bytesize;
    case KC_ID(cuMemAllocPitch_v2): return as<cuMemAllocPitch_v2_params>(data).WidthInBytes * as<cuMemAllocPitch_v2_params>(data).Height;
    case KC_ID(cuMemAllocAsync):
    case KC_ID(cuMemAllocAsync_ptsz): return as<cuMemAllocAsync_params>(data).bytesize;
    case KC_ID(cuMemAllocFromPoolAsync):
    case KC_ID(cuMemAllocFromPoolAsync_ptsz): return as<cuMemAllocFromPoolAsync_params>(data).bytesize;
    case KC_ID(cuMemCreate): return as<cuMemCreate_params>(data).size;
    case KC_ID(cuArrayCreate_v2): {
      const CUDA_ARRAY_DESCRIPTOR* wanted = as<cuArrayCreate_v2_params>(data).pAllocateArray;
      return wanted == nullptr ? 0 : array_bytes(wanted->Width, wanted->Height, 0, wanted->NumChannels);
    }
    case KC_ID(cuArray3DCreate_v2): {
      const CUDA_ARRAY3D_DESCRIPTOR* wanted = as<cuArray3DCreate_v2_params>(data).pAllocateArray;
      return wanted == nullptr ? 0 : array_bytes(wanted->Width, wanted->Height, wanted->Depth, wanted->NumChannels);
    }
    case KC_ID(cuMipmappedArrayCreate): {
      const CUDA_ARRAY3D_DESCRIPTOR* wanted = as<cuMipmappedArrayCreate_params>(data).pMipmappedArrayDesc;
      // All smaller levels together are less than the first once more.
      return wanted == nullptr ? 0 : 2 * array_bytes(wanted->Width, wanted->Height, wanted->Depth, wanted->NumChannels);
    }
    default: return 0;
  }
}

bool track_memory_call(Allocations& allocations, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  for (const CUpti_CallbackId known : k_calls) {
    if (known != call) continue;
    if (data.callbackSite == CUPTI_API_ENTER) {
      *data.correlationData = number_of_next_call();   // at its exit, too
      entered(allocations, call, data);
      return true;
    }
    const bool succeeded = *static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS;
    allocations.ended(*data.correlationData, succeeded);
    if (succeeded) returned(allocations, call, data);
    return true;
  }
  return false;
}

}  // namespace kerncap::cuda

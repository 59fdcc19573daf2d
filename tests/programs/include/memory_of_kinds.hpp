// Memory of each kind that HIP gives, made and given up by any thread.
#pragma once

#include <sys/mman.h>

#include <mutex>

#include "hip_check.hpp"

constexpr std::size_t k_page = 4096;

enum class Kind { device, fine, pinned, non_coherent, registered, managed, vmem, async, pitched };
constexpr const char* k_names[] = {"device",  "fine", "pinned", "non_coherent", "registered",
                                   "managed", "vmem", "async",  "pitched"};
constexpr int k_kinds = 9;

// Memory of one kind. What the stream's work uses is given up behind it, as each kind wants it.
struct Memory {
  Kind kind = Kind::device;
  std::size_t bytes = 0;
  unsigned* device = nullptr;
  void* host = nullptr;
  hipMemGenericAllocationHandle_t handle = nullptr;

  Memory(Kind which, std::size_t wanted, hipStream_t stream)
      : kind(which), bytes((wanted + k_page - 1) / k_page * k_page) {
    void** at = reinterpret_cast<void**>(&device);
    std::size_t pitch = 0;
    const std::lock_guard lock(s_one_at_a_time);
    switch (kind) {
      case Kind::device: HIP_OK(hipMalloc(at, bytes)); break;
      case Kind::fine: HIP_OK(hipExtMallocWithFlags(at, bytes, hipDeviceMallocFinegrained)); break;
      case Kind::pinned: HIP_OK(hipHostMalloc(at, bytes, hipHostMallocDefault)); break;
      case Kind::non_coherent: HIP_OK(hipHostMalloc(at, bytes, hipHostMallocNonCoherent)); break;
      case Kind::registered:
        host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        HIP_OK(hipHostRegister(host, bytes, hipHostRegisterDefault));
        HIP_OK(hipHostGetDevicePointer(at, host, 0));
        break;
      case Kind::managed: HIP_OK(hipMallocManaged(at, bytes)); break;
      case Kind::vmem: map(at); break;
      case Kind::async: HIP_OK(hipMallocAsync(at, bytes, stream)); break;
      case Kind::pitched: HIP_OK(hipMallocPitch(at, &pitch, k_page, bytes / k_page)); break;
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] unsigned words() const { return static_cast<unsigned>(bytes / sizeof(unsigned)); }

  void give_up(hipStream_t stream) {
    if (kind == Kind::async) {
      const std::lock_guard lock(s_one_at_a_time);
      HIP_OK(hipFreeAsync(device, stream));
      return;
    }
    HIP_OK(hipStreamSynchronize(stream));
    const std::lock_guard lock(s_one_at_a_time);
    switch (kind) {
      case Kind::pinned:
      case Kind::non_coherent: HIP_OK(hipHostFree(device)); break;
      case Kind::registered:
        HIP_OK(hipHostUnregister(host));
        munmap(host, bytes);
        break;
      case Kind::vmem: unmap(); break;
      default: HIP_OK(hipFree(device)); break;
    }
  }

 private:
  void map(void** at) {
    hipMemAllocationProp properties{};
    properties.type = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    std::size_t granule = 0;
    HIP_OK(hipMemGetAllocationGranularity(&granule, &properties, hipMemAllocationGranularityMinimum));
    bytes = (bytes + granule - 1) / granule * granule;
    HIP_OK(hipMemCreate(&handle, bytes, &properties, 0));
    HIP_OK(hipMemAddressReserve(at, bytes, 0, nullptr, 0));
    HIP_OK(hipMemMap(*at, bytes, 0, handle, 0));
    hipMemAccessDesc access{};
    access.location = properties.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    HIP_OK(hipMemSetAccess(*at, bytes, &access, 1));
  }
  void unmap() {
    HIP_OK(hipMemUnmap(device, bytes));
    HIP_OK(hipMemRelease(handle));
    HIP_OK(hipMemAddressFree(device, bytes));
  }
  // HIP 6.4 crashes in hipMemMap(), or frees another's memory, where two threads are in such calls at once.
  static inline std::mutex s_one_at_a_time;
};

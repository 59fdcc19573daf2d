// The few runtime calls that the test programs use, as CUDA names them: nvcc builds the same sources.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#define HIP_SYMBOL(symbol) (symbol)
#define HIP_KERNEL_WAITS() __nanosleep(100)
#define HIP_KERNEL_TRAPS() __trap()

#define hipError_t cudaError_t
#define hipSuccess cudaSuccess
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError
#define hipGetDeviceCount cudaGetDeviceCount
#define hipDeviceSynchronize cudaDeviceSynchronize

#define hipMalloc cudaMalloc
#define hipMallocAsync cudaMallocAsync
#define hipMallocPitch cudaMallocPitch
#define hipMallocManaged cudaMallocManaged
#define hipFree cudaFree
#define hipHostMalloc cudaHostAlloc
#define hipHostMallocMapped cudaHostAllocMapped
// CUDA has one kind of pinned memory, which is coherent.
#define hipHostMallocCoherent 0u
#define hipHostMallocNonCoherent 0u
#define hipHostFree cudaFreeHost
#define hipHostRegister cudaHostRegister
#define hipHostRegisterDefault cudaHostRegisterDefault
#define hipHostRegisterMapped cudaHostRegisterMapped
#define hipHostUnregister cudaHostUnregister
#define hipHostGetDevicePointer cudaHostGetDevicePointer
#define hipMemset cudaMemset
#define hipMemcpy cudaMemcpy
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemcpyDefault cudaMemcpyDefault
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyToSymbol cudaMemcpyToSymbol
#define hipMemcpyFromSymbol cudaMemcpyFromSymbol
#define hipGetSymbolAddress(address, symbol) cudaGetSymbolAddress(address, symbol)

#define hipStream_t cudaStream_t
#define hipStreamCreate cudaStreamCreate
#define hipStreamCreateWithFlags cudaStreamCreateWithFlags
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipStreamSynchronize cudaStreamSynchronize
#define hipStreamBeginCapture cudaStreamBeginCapture
#define hipStreamEndCapture cudaStreamEndCapture
#define hipStreamCaptureModeGlobal cudaStreamCaptureModeGlobal
#define hipGraph_t cudaGraph_t
#define hipGraphExec_t cudaGraphExec_t
#define hipGraphInstantiate(executable, graph, node, log, bytes) cudaGraphInstantiate(executable, graph, bytes)
#define hipGraphDestroy cudaGraphDestroy
#define hipGraphLaunch cudaGraphLaunch

// Virtual memory is the driver's: its functions are asked for, as machines that only compile have no libcuda to link.
template <typename Function, typename... Arguments>
cudaError_t driver_call(const char* name, Function, Arguments... arguments) {
  void* found = nullptr;
  const cudaError_t asked = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault);
  if (asked != cudaSuccess) return asked;
  return reinterpret_cast<Function>(found)(arguments...) == CUDA_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}
#define HIP_DRIVER_CALL(name, ...) driver_call(#name, static_cast<decltype(&name)>(nullptr), __VA_ARGS__)
#define hipMemAllocationProp CUmemAllocationProp
#define hipMemAllocationTypePinned CU_MEM_ALLOCATION_TYPE_PINNED
#define hipMemLocationTypeDevice CU_MEM_LOCATION_TYPE_DEVICE
#define hipMemGenericAllocationHandle_t CUmemGenericAllocationHandle
#define hipMemAllocationGranularityMinimum CU_MEM_ALLOC_GRANULARITY_MINIMUM
#define hipMemAllocationGranularityRecommended CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
#define hipMemAccessDesc CUmemAccessDesc
#define hipMemAccessFlagsProtRead CU_MEM_ACCESS_FLAGS_PROT_READ
#define hipMemAccessFlagsProtReadWrite CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define hipMemGetAllocationGranularity(...) HIP_DRIVER_CALL(cuMemGetAllocationGranularity, __VA_ARGS__)
#define hipMemCreate(...) HIP_DRIVER_CALL(cuMemCreate, __VA_ARGS__)
#define hipMemAddressReserve(address, bytes, alignment, wanted, flags) \
  HIP_DRIVER_CALL(cuMemAddressReserve, reinterpret_cast<CUdeviceptr*>(address), bytes, alignment, CUdeviceptr{0}, flags)
#define hipMemMap(address, bytes, offset, handle, flags) \
  HIP_DRIVER_CALL(cuMemMap, reinterpret_cast<CUdeviceptr>(address), bytes, offset, handle, flags)
#define hipMemSetAccess(address, bytes, access, count) \
  HIP_DRIVER_CALL(cuMemSetAccess, reinterpret_cast<CUdeviceptr>(address), bytes, access, count)
#define hipMemUnmap(address, bytes) HIP_DRIVER_CALL(cuMemUnmap, reinterpret_cast<CUdeviceptr>(address), bytes)
#define hipMemRelease(handle) HIP_DRIVER_CALL(cuMemRelease, handle)
#define hipMemAddressFree(address, bytes) \
  HIP_DRIVER_CALL(cuMemAddressFree, reinterpret_cast<CUdeviceptr>(address), bytes)

// Physical memory of the device that others can have by a file descriptor.
#pragma once

#include "driver_calls.cuh"

struct Exported {
  CUmemGenericAllocationHandle handle = 0;
  int descriptor = -1;
};

inline Exported export_memory(std::size_t bytes) {
  Exported made;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  DRIVER(cuMemCreate, &made.handle, bytes, &properties, 0ull);
  DRIVER(cuMemExportToShareableHandle, static_cast<void*>(&made.descriptor), made.handle,
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull);
  return made;
}

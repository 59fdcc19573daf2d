// HIP's side of the test programs, and CUDA's where nvcc builds them: checked calls and arrays on the device.
#pragma once

#ifdef __NVCC__
#include "hip_on_cuda.hpp"
#else
#include <hip/hip_runtime.h>
#define HIP_KERNEL_WAITS() __builtin_amdgcn_s_sleep(1)
#define HIP_KERNEL_TRAPS() __builtin_trap()
#endif

#include "tally.hpp"

#define HIP_OK(call)                                                                                  \
  do {                                                                                                \
    const hipError_t hip_error = (call);                                                              \
    if (hip_error != hipSuccess) {                                                                    \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(hip_error)); \
      std::exit(1);                                                                                   \
    }                                                                                                 \
  } while (false)

// Call after a launch: reports a launch that was refused as well as a kernel that failed.
#define HIP_DONE()            \
  do {                        \
    HIP_OK(hipGetLastError()); \
    HIP_OK(hipDeviceSynchronize()); \
  } while (false)

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : m_count(count) { HIP_OK(hipMalloc(&m_data, count * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { write(values); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { (void)hipFree(m_data); }

  T* get() const { return m_data; }
  void write(const std::vector<T>& values) {
    HIP_OK(hipMemcpy(m_data, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  }
  void clear() { HIP_OK(hipMemset(m_data, 0, m_count * sizeof(T))); }
  std::vector<T> read() const {
    std::vector<T> values(m_count);
    HIP_OK(hipMemcpy(values.data(), m_data, m_count * sizeof(T), hipMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t m_count;
  T* m_data = nullptr;
};

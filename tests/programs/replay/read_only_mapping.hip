// A mapping that the device may only read. The variant WRITES writes to it.
#include "hip_check.hpp"

__global__ void sum_up(int* constant, int* out) {
  int sum = 0;
  for (int i = 0; i < 100; ++i) sum += constant[i];
#ifdef WRITES
  constant[0] = sum;
#endif
  out[0] = sum;
}

int main() {
  hipMemAllocationProp properties = {};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  std::size_t granule = 0;
  HIP_OK(hipMemGetAllocationGranularity(&granule, &properties, hipMemAllocationGranularityMinimum));
  hipMemGenericAllocationHandle_t handle;
  HIP_OK(hipMemCreate(&handle, granule, &properties, 0));
  void* base = nullptr;
  HIP_OK(hipMemAddressReserve(&base, granule, 0, nullptr, 0));
  HIP_OK(hipMemMap(base, granule, 0, handle, 0));
  hipMemAccessDesc access = {};
  access.location = properties.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  HIP_OK(hipMemSetAccess(base, granule, &access, 1));
  std::vector<int> values(100);
  for (int i = 0; i < 100; ++i) values[i] = i;
  HIP_OK(hipMemcpy(base, values.data(), 400, hipMemcpyHostToDevice));
  HIP_OK(hipDeviceSynchronize());  // such a copy may return before its bytes have arrived
  access.flags = hipMemAccessFlagsProtRead;
  HIP_OK(hipMemSetAccess(base, granule, &access, 1));
  const DeviceArray<int> out(1);
  sum_up<<<1, 1>>>(static_cast<int*>(base), out.get());
  HIP_DONE();
  Tally tally("read_only_mapping");
  tally.equal("sum", out.read(), {4950});
  HIP_OK(hipMemUnmap(base, granule));
  HIP_OK(hipMemRelease(handle));
  HIP_OK(hipMemAddressFree(base, granule));
  return tally.finish();
}

// A thread changes the GPU's rights to a mapping and gives them back, again and again, while another launches `target`, which
// does not use the mapping. usage: changed_rights LAUNCHES none|read_only
#include <atomic>
#include <string>
#include <thread>

#include "hip_check.hpp"

__global__ void target(int* data) { data[threadIdx.x] += 1; }

int main(int, char** argv) {
  Tally tally("changed_rights");
  const int launches = std::atoi(argv[1]);
  const auto fewer = std::string(argv[2]) == "none" ? hipMemAccessFlagsProtNone : hipMemAccessFlagsProtRead;
  const DeviceArray<int> data(std::vector<int>(64, 0));
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, 0};
  std::size_t granule = 0;
  HIP_OK(hipMemGetAllocationGranularity(&granule, &properties, hipMemAllocationGranularityRecommended));
  const std::size_t bytes = (std::size_t{64} << 20) / granule * granule;
  hipMemGenericAllocationHandle_t handle;
  void* mapping = nullptr;
  HIP_OK(hipMemCreate(&handle, bytes, &properties, 0));
  HIP_OK(hipMemAddressReserve(&mapping, bytes, 0, nullptr, 0));
  HIP_OK(hipMemMap(mapping, bytes, 0, handle, 0));
  const auto allow = [&](hipMemAccessFlags rights) {
    const hipMemAccessDesc access{properties.location, rights};
    HIP_OK(hipMemSetAccess(mapping, bytes, &access, 1));
  };
  allow(hipMemAccessFlagsProtReadWrite);
  HIP_OK(hipMemset(mapping, 1, bytes));
  HIP_DONE();

  std::atomic<bool> over{false};
  std::atomic<int> changes{0};
  std::thread other([&] {
    for (; !over; ++changes) {
      allow(fewer);
      allow(hipMemAccessFlagsProtReadWrite);
    }
  });
  for (int i = 0; i < launches; ++i) {
    target<<<1, 64>>>(data.get());
    HIP_DONE();
  }
  over = true;
  other.join();
  tally.equal("data", data.read(), std::vector<int>(64, launches));
  tally.expect(changes > 0, "rights were changed", 0, changes, 1);
  HIP_OK(hipMemUnmap(mapping, bytes));
  HIP_OK(hipMemRelease(handle));
  HIP_OK(hipMemAddressFree(mapping, bytes));
  return tally.finish();
}

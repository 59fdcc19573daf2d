// Memory that is mapped by hand: two physical pieces side by side, one of them mapped twice, and pointers into both.
#include "hip_check.hpp"

__global__ void add_through(int** pointers, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) pointers[0][i] = pointers[1][i] + pointers[2][i] + 1;
}

// Writes through one address of a piece and reads through the other, in one work-item.
__global__ void through_both(int* first, int* second, int* out) {
  first[0] += 5;
  __threadfence();
  out[0] = *static_cast<volatile int*>(second);
  second[1] = first[0] * 2;
  __threadfence();
  out[1] = *static_cast<volatile int*>(first + 1);
}

struct Piece {
  Piece(int device, std::size_t bytes) {
    hipMemAllocationProp properties = {};
    properties.type = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    properties.location.id = device;
    HIP_OK(hipMemCreate(&handle, bytes, &properties, 0));
  }
  hipMemGenericAllocationHandle_t handle;
};

int main() {
  hipMemAllocationProp properties = {};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  std::size_t granule = 0;
  HIP_OK(hipMemGetAllocationGranularity(&granule, &properties, hipMemAllocationGranularityMinimum));
  const Piece pieces[2] = {Piece(0, granule), Piece(0, granule)};
  void* base = nullptr;
  HIP_OK(hipMemAddressReserve(&base, 3 * granule, 0, nullptr, 0));
  auto* bytes = static_cast<char*>(base);
  HIP_OK(hipMemMap(bytes, granule, 0, pieces[0].handle, 0));
  HIP_OK(hipMemMap(bytes + granule, granule, 0, pieces[1].handle, 0));
  HIP_OK(hipMemMap(bytes + 2 * granule, granule, 0, pieces[0].handle, 0));
  hipMemAccessDesc access = {};
  access.location = properties.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  HIP_OK(hipMemSetAccess(base, 3 * granule, &access, 1));

  const int count = static_cast<int>(granule / sizeof(int));
  std::vector<int> left(count), right(count), wanted(count);
  for (int i = 0; i < count; ++i) left[i] = i, right[i] = 2 * i, wanted[i] = 3 * i + 1;
  HIP_OK(hipMemcpy(bytes, left.data(), granule, hipMemcpyHostToDevice));
  HIP_OK(hipMemcpy(bytes + granule, right.data(), granule, hipMemcpyHostToDevice));
  auto* first = reinterpret_cast<int*>(bytes);
  auto* middle = reinterpret_cast<int*>(bytes + granule);
  auto* again = reinterpret_cast<int*>(bytes + 2 * granule);
  const DeviceArray<int*> pointers(std::vector<int*>{middle, again, middle});
  add_through<<<(count + 255) / 256, 256>>>(pointers.get(), count);
  HIP_DONE();
  std::vector<int> back(count);
  HIP_OK(hipMemcpy(back.data(), middle, granule, hipMemcpyDeviceToHost));
  Tally tally("virtual_memory");
  tally.equal("sum", back, wanted);
  const DeviceArray<int> out(2);
  through_both<<<1, 1>>>(first, again, out.get());
  HIP_DONE();
  tally.equal("both", out.read(), {5, 10});
  HIP_OK(hipMemUnmap(base, 3 * granule));
  for (const Piece& piece : pieces) HIP_OK(hipMemRelease(piece.handle));
  HIP_OK(hipMemAddressFree(base, 3 * granule));
  return tally.finish();
}

// Copies of rectangles and boxes between host and device and within it, with a pitch of their own on each side.
#include "hip_check.hpp"

namespace {

constexpr std::size_t k_width = 37, k_height = 11, k_depth = 3;  // bytes, rows, slices
constexpr std::size_t k_host_pitch = 50;

std::vector<unsigned char> numbered(std::size_t size) {
  std::vector<unsigned char> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 7);
  return bytes;
}

}  // namespace

int main() {
  Tally tally("rectangular_copies");
  const std::vector<unsigned char> host = numbered(k_host_pitch * k_height);
  unsigned char *first = nullptr, *second = nullptr;
  std::size_t pitch = 0;
  HIP_OK(hipMallocPitch(reinterpret_cast<void**>(&first), &pitch, k_width, k_height + 4));
  HIP_OK(hipMalloc(reinterpret_cast<void**>(&second), 64 * (k_height + 2)));
  HIP_OK(hipMemset2D(first, pitch, 0xEE, k_width, k_height + 4));
  HIP_OK(hipMemset(second, 0xDD, 64 * (k_height + 2)));

  // Host to device, two rows down; device to device, with an offset; and back.
  HIP_OK(hipMemcpy2D(first + 2 * pitch, pitch, host.data(), k_host_pitch, k_width, k_height, hipMemcpyHostToDevice));
  HIP_OK(hipMemcpy2D(second + 64 + 5, 64, first + 2 * pitch, pitch, k_width, k_height, hipMemcpyDeviceToDevice));
  std::vector<unsigned char> back(k_host_pitch * k_height, 0xAA), wanted = back;
  HIP_OK(hipMemcpy2D(back.data(), k_host_pitch, second + 64 + 5, 64, k_width, k_height, hipMemcpyDeviceToHost));
  for (std::size_t y = 0; y < k_height; ++y)
    for (std::size_t x = 0; x < k_width; ++x) wanted[y * k_host_pitch + x] = host[y * k_host_pitch + x];
  tally.equal("there and back", back, wanted);

  // Nothing beside the rectangle has changed.
  std::vector<unsigned char> all(64 * (k_height + 2)), around(all.size(), 0xDD);
  HIP_OK(hipMemcpy(all.data(), second, all.size(), hipMemcpyDeviceToHost));
  for (std::size_t y = 0; y < k_height; ++y)
    for (std::size_t x = 0; x < k_width; ++x) around[(y + 1) * 64 + 5 + x] = host[y * k_host_pitch + x];
  tally.equal("around it", all, around);
  std::vector<unsigned char> rows(k_width * (k_height + 4));
  HIP_OK(hipMemcpy2D(rows.data(), k_width, first, pitch, k_width, k_height + 4, hipMemcpyDeviceToHost));
  for (std::size_t i = 0; i < k_width; ++i) {
    tally.equal("row above", i, rows[i], static_cast<unsigned char>(0xEE));
    tally.equal("row below", i, rows[(k_height + 3) * k_width + i], static_cast<unsigned char>(0xEE));
  }

  // Between the device and memory that it may read itself, on a stream: line by line where a pitch is no multiple of 4, else by one
  // rectangle packet of a copy engine, which wants aligned addresses as well. Bytes beside the rectangle stay.
  for (const std::size_t host_pitch : {k_host_pitch, std::size_t{52}}) {
    const std::vector<unsigned char> rows_in = numbered(host_pitch * k_height);
    unsigned char* pinned = nullptr;
    HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&pinned), rows_in.size(), 0));
    std::memcpy(pinned, rows_in.data(), rows_in.size());
    std::vector<unsigned char> moved = rows_in;
    for (std::size_t y = 0; y < k_height; ++y) std::memcpy(&moved[y * host_pitch + 28], &rows_in[y * host_pitch + 4], 20);
    hipStream_t stream;
    HIP_OK(hipStreamCreate(&stream));
    HIP_OK(hipMemcpy2DAsync(second, 64, pinned + 4, host_pitch, 20, k_height, hipMemcpyHostToDevice, stream));
    HIP_OK(hipMemcpy2DAsync(pinned + 28, host_pitch, second, 64, 20, k_height, hipMemcpyDeviceToHost, stream));
    HIP_OK(hipStreamSynchronize(stream));
    tally.equal("pinned", std::vector<unsigned char>(pinned, pinned + rows_in.size()), moved);
    HIP_OK(hipStreamDestroy(stream));
    HIP_OK(hipHostFree(pinned));
  }

  // A box.
  const std::vector<unsigned char> box = numbered(k_host_pitch * k_height * k_depth);
  hipPitchedPtr device{};
  HIP_OK(hipMalloc3D(&device, make_hipExtent(k_width, k_height, k_depth)));
  hipMemcpy3DParms copy{};
  copy.srcPtr = make_hipPitchedPtr(const_cast<unsigned char*>(box.data()), k_host_pitch, k_width, k_height);
  copy.dstPtr = device;
  copy.extent = make_hipExtent(k_width - 4, k_height - 2, k_depth - 1);
  copy.srcPos = make_hipPos(4, 2, 1);
  copy.dstPos = make_hipPos(1, 1, 0);
  copy.kind = hipMemcpyHostToDevice;
  HIP_OK(hipMemcpy3D(&copy));
  std::vector<unsigned char> out(k_host_pitch * k_height * k_depth, 0x55), boxed = out;
  hipMemcpy3DParms home{};
  home.srcPtr = device;
  home.dstPtr = make_hipPitchedPtr(out.data(), k_host_pitch, k_width, k_height);
  home.extent = copy.extent;
  home.srcPos = copy.dstPos;
  home.dstPos = make_hipPos(2, 0, 1);
  home.kind = hipMemcpyDeviceToHost;
  HIP_OK(hipMemcpy3D(&home));
  const auto at = [](std::size_t x, std::size_t y, std::size_t z) { return (z * k_height + y) * k_host_pitch + x; };
  for (std::size_t z = 0; z < k_depth - 1; ++z)
    for (std::size_t y = 0; y < k_height - 2; ++y)
      for (std::size_t x = 0; x < k_width - 4; ++x) boxed[at(x + 2, y, z + 1)] = box[at(x + 4, y + 2, z + 1)];
  tally.equal("box", out, boxed);
  HIP_OK(hipFree(device.ptr));
  HIP_OK(hipFree(first));
  HIP_OK(hipFree(second));
  return tally.finish();
}

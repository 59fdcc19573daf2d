// Copies: sizes and offsets that are not aligned, host to device and back, device to device, rectangles, order by
// signals, and time stamps.
#include "hsa_check.hpp"

namespace {

std::vector<unsigned char> numbered(std::size_t size_bytes, unsigned seed) {
  std::vector<unsigned char> bytes(size_bytes);
  Random source(seed);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(source.bits());
  return bytes;
}

}  // namespace

int main() {
  constexpr std::size_t k_bytes = std::size_t{2} << 20;
  const Machine machine;
  Tally tally("hsa_copy");
  const Agent& gpu = machine.gpus[0];
  const Agent& cpu = machine.cpus[0];
  unsigned char* buffers[4];  // host, device, device, host
  for (int i = 0; i < 4; ++i) {
    void* memory = nullptr;
    const Pool& pool = i == 0 || i == 3 ? cpu.fine() : gpu.coarse();
    HSA_OK(hsa_amd_memory_pool_allocate(pool.handle, k_bytes, 0, &memory));
    if (i == 0 || i == 3) HSA_OK(hsa_amd_agents_allow_access(1, &gpu.handle, nullptr, memory));
    buffers[i] = static_cast<unsigned char*>(memory);
  }
  const hsa_agent_t agents[4] = {cpu.handle, gpu.handle, gpu.handle, cpu.handle};

  HSA_OK(hsa_amd_profiling_async_copy_enable(true));
  unsigned seed = 1;
  for (const std::size_t size_bytes : {std::size_t{1}, std::size_t{3}, std::size_t{64}, std::size_t{4095}, std::size_t{65537}, k_bytes - 64})
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{36}}) {
      const std::vector<unsigned char> bytes = numbered(size_bytes, ++seed);
      std::memcpy(buffers[0] + offset, bytes.data(), size_bytes);
      std::memset(buffers[3], 0, k_bytes);
      // Each copy waits for the one before it. In this order: ROCr puts small copies within a GPU and copies to the
      // host on the same engine, which would wait for ever behind a later link.
      const Signal start(1), first(1), second(1), third(1);
      const hsa_signal_t links[4] = {start, first, second, third};
      for (int i = 0; i <= 2; ++i)
        HSA_OK(hsa_amd_memory_async_copy(buffers[i + 1] + offset, agents[i + 1], buffers[i] + offset, agents[i], size_bytes,
                                         1, &links[i], links[i + 1]));
      hsa_signal_store_screlease(start, 0);
      third.wait("a chain of copies");
      tally.expect(std::memcmp(buffers[3] + offset, bytes.data(), size_bytes) == 0, "copied", size_bytes, 0, 1);
      tally.expect(buffers[3][offset + size_bytes] == 0 && (offset == 0 || buffers[3][offset - 1] == 0), "around it", size_bytes, 0, 1);
      std::uint64_t last_end = 0;
      for (int i = 1; i < 4; ++i) {
        hsa_amd_profiling_async_copy_time_t time{};
        HSA_OK(hsa_amd_profiling_get_async_copy_time(links[i], &time));
        tally.expect(time.start <= time.end && time.start >= last_end, "times", size_bytes, static_cast<double>(time.start),
                     static_cast<double>(last_end));
        last_end = time.end;
      }
    }

  // A rectangle out of one image into another, each with a pitch of its own, two slices deep.
  constexpr std::size_t k_from_pitch = 256, k_to_pitch = 384, k_rows = 20, k_slices = 2;
  const std::vector<unsigned char> image = numbered(k_from_pitch * k_rows * k_slices, 99);
  std::memcpy(buffers[0], image.data(), image.size());
  std::memset(buffers[3], 0, k_bytes);
  HSA_OK(hsa_memory_copy(buffers[1], buffers[0], image.size()));
  HSA_OK(hsa_amd_memory_fill(buffers[2], 0, k_bytes / 4));
  const hsa_pitched_ptr_t from{buffers[1], k_from_pitch, k_from_pitch * k_rows};
  const hsa_pitched_ptr_t to{buffers[2], k_to_pitch, k_to_pitch * k_rows};
  const hsa_dim3_t from_offset{32, 2, 0}, to_offset{64, 5, 0}, range{100, 12, k_slices};
  const Signal done(1);
  const hsa_status_t status =
      hsa_amd_memory_async_copy_rect(&to, &to_offset, &from, &from_offset, &range, gpu.handle, hsaDeviceToDevice, 0, nullptr, done);
  // Only the copy engines do rectangles: without them ROCr declines.
  const char* engines = std::getenv("HSA_ENABLE_SDMA");
  const bool declined = engines != nullptr && std::strcmp(engines, "0") == 0;
  tally.equal("rectangle accepted", 0, static_cast<int>(status),
              static_cast<int>(declined ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_SUCCESS));
  if (status == HSA_STATUS_SUCCESS) {
    done.wait("a rectangle");
    HSA_OK(hsa_memory_copy(buffers[3], buffers[2], k_to_pitch * k_rows * k_slices));
    std::vector<unsigned char> wanted(k_to_pitch * k_rows * k_slices);
    for (std::size_t z = 0; z < range.z; ++z)
      for (std::size_t y = 0; y < range.y; ++y)
        std::memcpy(&wanted[(z * k_rows + y + to_offset.y) * k_to_pitch + to_offset.x],
                    &image[(z * k_rows + y + from_offset.y) * k_from_pitch + from_offset.x], range.x);
    tally.equal("rectangle", std::vector<unsigned char>(buffers[3], buffers[3] + wanted.size()), wanted);
  }
  for (unsigned char* buffer : buffers) HSA_OK(hsa_amd_memory_pool_free(buffer));
  return tally.finish();
}

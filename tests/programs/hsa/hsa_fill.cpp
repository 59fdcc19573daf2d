// hsa_amd_memory_fill: which ROCr does with a kernel of its own.
#include "hsa_check.hpp"

int main() {
  constexpr std::size_t k_words = 300000;
  const Machine machine;
  Tally tally("hsa_fill");
  void *device = nullptr, *host = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, k_words * 4, 0, &device));
  HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, k_words * 4, 0, &host));
  HSA_OK(hsa_amd_agents_allow_access(1, &machine.gpus[0].handle, nullptr, host));
  std::vector<unsigned> wanted(k_words, 0x01020304u);
  HSA_OK(hsa_amd_memory_fill(device, 0x01020304u, k_words));
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1000}, std::size_t{100003}}) {
    const std::size_t first = count % 13;
    const std::uint32_t value = 0xC0DE0000u + static_cast<std::uint32_t>(count);
    HSA_OK(hsa_amd_memory_fill(static_cast<std::uint32_t*>(device) + first, value, count));
    for (std::size_t i = 0; i < count; ++i) wanted[first + i] = value;
    HSA_OK(hsa_memory_copy(host, device, k_words * 4));
    const unsigned* words = static_cast<const unsigned*>(host);
    tally.equal("words", std::vector<unsigned>(words, words + k_words), wanted);
  }
  HSA_OK(hsa_amd_memory_pool_free(device));
  HSA_OK(hsa_amd_memory_pool_free(host));
  return tally.finish();
}

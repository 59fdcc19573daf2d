// Describes machine and devices. Needs a driver that is up, so it waits for the first call that is of interest.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

namespace messages = capture::messages;

std::string uuid_of(CUdevice device) {
  CUuuid uuid{};
  if (driver().cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) return {};
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

void send_device(CUdevice device) {
  char name[256] = {};
  char pci[32] = {};
  std::size_t memory = 0;
  driver().cuDeviceGetName(name, sizeof name, device);
  driver().cuDeviceGetPCIBusId(pci, sizeof pci, device);
  driver().cuDeviceTotalMem_v2(&memory, device);
  const std::string architecture =
      "sm_" + std::to_string(device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
      std::to_string(device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  const std::string uuid = uuid_of(device);
  const std::string memory_bytes = std::to_string(memory);
  const std::string units = std::to_string(device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const std::string warp = std::to_string(device_attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  tool()->channel->send(messages::Facts{.scope = static_cast<std::uint32_t>(device),
                                        .facts = {{"name", name},
                                                  {"isa", architecture},
                                                  {"pci_address", pci},
                                                  {"uuid", uuid},
                                                  {"memory_size_bytes", memory_bytes},
                                                  {"compute_units", units},
                                                  {"wavefront_size", warp}}});
}

}  // namespace

void send_facts() noexcept {
  if (tool()->facts_sent.exchange(true)) return;
  int version = 0;
  int count = 0;
  driver().cuDriverGetVersion(&version);
  if (driver().cuDeviceGetCount(&count) != CUDA_SUCCESS) count = 0;
  tool()->device_count = static_cast<std::uint32_t>(std::clamp(count, 1, 63));
  const std::string text = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  tool()->channel->send(messages::Facts{.scope = capture::k_no_device, .facts = {{"runtime_version", text}}});
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (driver().cuDeviceGet(&device, i) == CUDA_SUCCESS) send_device(device);
  }
}

}  // namespace kerncap::cuda

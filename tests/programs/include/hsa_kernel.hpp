// Kernels of a code object that was compiled apart from the program, and their dispatch packets.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "hsa_check.hpp"

class CodeObject {
 public:
  // Loads the file for the GPU; through memory that is gone once it is loaded, or through the file itself.
  CodeObject(const Agent& gpu, const char* path, bool from_file) : m_gpu(gpu.handle) {
    const int fd = open(path, O_RDONLY);
    hsa_code_object_reader_t reader{};
    std::vector<char> bytes;
    if (from_file) {
      HSA_OK(hsa_code_object_reader_create_from_file(fd, &reader));
    } else {
      bytes.resize(static_cast<std::size_t>(lseek(fd, 0, SEEK_END)));
      if (pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::exit(1);
      HSA_OK(hsa_code_object_reader_create_from_memory(bytes.data(), bytes.size(), &reader));
    }
    close(fd);
    HSA_OK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &m_executable));
    HSA_OK(hsa_executable_load_agent_code_object(m_executable, m_gpu, reader, nullptr, nullptr));
    HSA_OK(hsa_executable_freeze(m_executable, nullptr));
    HSA_OK(hsa_code_object_reader_destroy(reader));
  }
  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;

  void unload() { HSA_OK(hsa_executable_destroy(m_executable)); }
  [[nodiscard]] hsa_executable_t executable() const { return m_executable; }

  // A dispatch of `groups` work-groups of 64; `name` is the symbol without its .kd.
  [[nodiscard]] hsa_kernel_dispatch_packet_t dispatch(const char* name, unsigned groups, void* kernarg,
                                                      hsa_signal_t done) const {
    const std::string symbol_name = std::string(name) + ".kd";
    hsa_executable_symbol_t symbol;
    HSA_OK(hsa_executable_get_symbol_by_name(m_executable, symbol_name.c_str(), &m_gpu, &symbol));
    hsa_kernel_dispatch_packet_t packet{};
    packet.setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
    packet.workgroup_size_x = 64;
    packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.grid_size_x = 64 * groups;
    packet.grid_size_y = packet.grid_size_z = 1;
    packet.kernarg_address = kernarg;
    packet.completion_signal = done;
    HSA_OK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &packet.kernel_object));
    HSA_OK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
                                          &packet.group_segment_size));
    HSA_OK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
                                          &packet.private_segment_size));
    return packet;
  }

 private:
  hsa_agent_t m_gpu;
  hsa_executable_t m_executable{};
};

// Host memory that kernels may read their arguments from, and write results to.
inline void* kernarg_memory(const Machine& machine, std::size_t bytes) {
  void* memory = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].pool(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT).handle, bytes,
                                      0, &memory));
  HSA_OK(hsa_amd_agents_allow_access(1, &machine.gpus[0].handle, nullptr, memory));
  return memory;
}

// Several packets at once: all written, then the header of each, then one ring of the doorbell.
inline void submit_all(hsa_queue_t* queue, const std::vector<hsa_kernel_dispatch_packet_t>& packets) {
  const std::uint64_t first = hsa_queue_add_write_index_screlease(queue, packets.size());
  const std::uint64_t last = first + packets.size() - 1;
  while (last - hsa_queue_load_read_index_scacquire(queue) >= queue->size) {
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    char* slot = static_cast<char*>(queue->base_address) + ((first + i) % queue->size) * 64;
    std::memcpy(slot + 4, reinterpret_cast<const char*>(&packets[i]) + 4, 60);
    const std::uint32_t header = packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true) | packets[i].setup << 16;
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(slot), header, __ATOMIC_RELEASE);
  }
  hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(last));
}

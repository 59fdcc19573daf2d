// The folders in which the kernel driver describes nodes, memory, caches and links, as text made from the chip. A CPU-to-GPU link
// tells ROCr that the whole VRAM is host-visible.
#include "softgpu/device/topology.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "softgpu/device/system_files.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::string_view k_root = "/sys/devices/virtual/kfd/kfd/topology";
constexpr unsigned k_kfd_major = 510;  // any that the kernel hands out

// Capability bits of a node, as the driver's HSA_CAP_* (kfd_topology.h).
constexpr std::uint32_t k_cap_watch_points = 1U << 7 | 2U << 8;
constexpr std::uint32_t k_cap_doorbell_type_2 = 2U << 12;
constexpr std::uint32_t k_cap_memory_ecc = 1U << 20;
constexpr std::uint32_t k_cap_sram_ecc = 1U << 26;
// ROCr then has the runtime enabled with the driver, which is also what lets it shut down and start again.
constexpr std::uint32_t k_cap_debug_traps = 1U << 15, k_cap_debug_firmware = 1U << 29;
constexpr std::uint32_t k_cap_svm_api = 1U << 27;  // else registered host memory gets a second address

constexpr unsigned k_heap_system = 0, k_heap_public_vram = 1;
constexpr unsigned k_link_pcie = 2, k_link_xgmi = 11;
constexpr unsigned k_cache_data = 1, k_cache_gpu = 8;

// "name value" lines.
class Properties {
 public:
  Properties& set(const char* name, std::uint64_t value) {
    m_text.append(name).append(" ").append(std::to_string(value)).append("\n");
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(m_text); }

 private:
  std::string m_text;
};

// ROCr names the CPU agent by finding this number among the apicids of /proc/cpuinfo.
[[nodiscard]] unsigned first_apic_id() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("apicid", 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos) return static_cast<unsigned>(std::strtoul(line.c_str() + colon + 1, nullptr, 10));
  }
  return 0;
}

[[nodiscard]] std::uint64_t host_memory_bytes() {
  return static_cast<std::uint64_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

[[nodiscard]] std::string node_path(unsigned node) {
  return std::string(k_root) + "/nodes/" + std::to_string(node);
}

class Topology {
 public:
  Topology(FileTree& files, const Settings& settings) : m_files(files), m_settings(settings) {}

  void add() {
    m_files.add_text(std::string(k_root) + "/generation_id", "1\n");
    m_files.add_text(std::string(k_root) + "/system_properties",
                     Properties().set("platform_oem", 0).set("platform_id", 0).set("platform_rev", 0).take());
    add_cpu_node();
    for (unsigned i = 0; i < m_settings.gpu_count; ++i) add_gpu_node(i);
  }

 private:
  void add(const std::string& path, std::string text) { m_files.add_text(path, std::move(text)); }
  void add_cpu_node();
  void add_gpu_node(unsigned index);
  void add_link(unsigned from, unsigned number, unsigned to);

  FileTree& m_files;
  const Settings& m_settings;
};

void Topology::add_cpu_node() {
  const std::string node = node_path(0);
  const unsigned gpus = m_settings.gpu_count;
  add(node + "/gpu_id", "0\n");
  add(node + "/name", "\n");
  add(node + "/properties",
      Properties()
          .set("cpu_cores_count", static_cast<std::uint64_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L)))
          .set("simd_count", 0).set("mem_banks_count", 1).set("caches_count", 0).set("io_links_count", gpus)
          .set("p2p_links_count", 0).set("cpu_core_id_base", first_apic_id()).set("simd_id_base", 0).set("num_xcc", 0)
          .take());
  add(node + "/mem_banks/0/properties",
      Properties().set("heap_type", k_heap_system).set("size_in_bytes", host_memory_bytes()).set("flags", 0)
          .set("width", 64).set("mem_clk_max", 3200).take());
  for (unsigned i = 0; i < gpus; ++i) add_link(0, i, i + 1);
}

void Topology::add_gpu_node(unsigned index) {
  const Chip& chip = *m_settings.chip;
  const unsigned gpus = m_settings.gpu_count;
  const std::string node = node_path(index + 1);
  std::uint32_t capability = k_cap_watch_points | k_cap_doorbell_type_2 | k_cap_svm_api |
                             k_cap_debug_traps | k_cap_debug_firmware;
  if (chip.ecc) capability |= k_cap_memory_ecc | k_cap_sram_ecc;
  const unsigned cache_count = chip.l3_kib != 0 ? 3 : 2;

  add(node + "/gpu_id", std::to_string(k_first_gpu_id + index) + "\n");
  add(node + "/name", std::string(chip.amd_name) + "\n");
  add(node + "/properties",
      Properties()
          .set("cpu_cores_count", 0).set("simd_count", chip.compute_units * chip.simds_per_unit)
          .set("mem_banks_count", 1).set("caches_count", cache_count).set("io_links_count", gpus)
          .set("p2p_links_count", 0).set("cpu_core_id_base", 0).set("simd_id_base", 0x80001000U + (index << 16))
          .set("max_waves_per_simd", chip.waves_per_simd).set("lds_size_in_kb", chip.lds_kib)
          .set("gds_size_in_kb", 0).set("num_gws", 64).set("wave_front_size", traits(chip.target).lanes)
          .set("array_count", chip.shader_arrays).set("simd_arrays_per_engine", chip.shader_arrays_per_engine)
          .set("cu_per_simd_array", chip.units_per_array).set("simd_per_cu", chip.simds_per_unit)
          .set("max_slots_scratch_cu", 32).set("gfx_target_version", chip.gfx_version).set("vendor_id", 0x1002)
          .set("device_id", chip.device_id).set("location_id", pci_bus(index) << 8).set("domain", 0)
          .set("drm_render_minor", k_first_render_minor + index)
          .set("hive_id", chip.xgmi ? 0x6b63736674677075U : 0)
          .set("num_sdma_engines", chip.sdma_engines).set("num_sdma_xgmi_engines", chip.sdma_xgmi_engines)
          .set("num_sdma_queues_per_engine", chip.sdma_queues_per_engine).set("num_cp_queues", 24)
          .set("max_engine_clk_fcompute", chip.clock_mhz).set("max_engine_clk_ccompute", 2000)
          .set("local_mem_size", 0).set("fw_version", chip.firmware_version).set("capability", capability)
          .set("debug_prop", 0).set("sdma_fw_version", chip.sdma_firmware_version)
          .set("unique_id", unique_id(index)).set("num_xcc", chip.xcc_count)
          .set("family_id", chip.family_id)
          .take());
  add(node + "/mem_banks/0/properties",
      Properties().set("heap_type", k_heap_public_vram).set("size_in_bytes", m_settings.vram_bytes).set("flags", 0)
          .set("width", chip.memory_width_bits).set("mem_clk_max", chip.memory_clock_mhz).take());

  const unsigned sizes_kib[] = {chip.l1_kib, chip.l2_kib, chip.l3_kib};
  for (unsigned level = 0; level < cache_count; ++level) {
    // ROCr takes only caches that say "data" and "GPU".
    add(node + "/caches/" + std::to_string(level) + "/properties",
        Properties().set("processor_id_low", 0x80001000U + (index << 16)).set("level", level + 1)
                .set("size", sizes_kib[level]).set("cache_line_size", chip.cache_line_bytes)
                .set("cache_lines_per_tag", 1).set("association", 16).set("latency", 0)
                .set("type", k_cache_data | k_cache_gpu).take() + "sibling_map 1\n");
  }

  add_link(index + 1, 0, 0);
  for (unsigned other = 0, number = 1; other < gpus; ++other) {
    if (other != index) add_link(index + 1, number++, other + 1);
  }
}

void Topology::add_link(unsigned from, unsigned number, unsigned to) {
  const bool between_gpus = from != 0 && to != 0;
  const bool xgmi = between_gpus && m_settings.chip->xgmi;
  add(node_path(from) + "/io_links/" + std::to_string(number) + "/properties",
      Properties()
          .set("type", xgmi ? k_link_xgmi : k_link_pcie).set("version_major", 0).set("version_minor", 0)
          .set("node_from", from).set("node_to", to).set("weight", xgmi ? 15 : between_gpus ? 40 : 20)
          .set("min_latency", 0).set("max_latency", 0)
          .set("min_bandwidth", xgmi ? 50000 : 312).set("max_bandwidth", xgmi ? 200000 : 32000)
          .set("recommended_transfer_size", 0).set("recommended_sdma_engine_id_mask", 0).set("flags", 1)
          .take());
}

}  // namespace

void add_topology(FileTree& files, const Settings& settings) {
  files.add_whole_folder("/sys/devices/virtual/kfd");
  files.add_whole_folder("/sys/class/kfd");
  files.add_link("/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd");
  files.add_device("/dev/kfd", {Device::kfd, 0}, k_kfd_major, 0);
  Topology(files, settings).add();
}

}  // namespace kerncap::softgpu

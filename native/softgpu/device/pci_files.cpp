// The GPUs as PCI devices with DRM nodes, and the module that drives them: what programs look at to find out which GPUs there are.
// Only what has a meaning here: no clocks, sensors, power, or use of memory.
#include <cinttypes>
#include <string>

#include "softgpu/device/chip.hpp"
#include "softgpu/device/formatted.hpp"
#include "softgpu/device/system_files.hpp"
#include "softgpu/device/topology.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_amd_vendor = 0x1002;
constexpr unsigned k_drm_major = 226;
// Processing accelerator; display controller.
constexpr unsigned k_class_accelerator = 0x120000, k_class_display = 0x030000;

class PciDevice {
 public:
  PciDevice(FileTree& files, const Settings& settings, unsigned index)
      : m_files(files), m_settings(settings), m_index(index), m_slot(formatted("0000:%02x:00.0", pci_bus(index))),
        m_folder("/sys/devices/pci0000:00/" + m_slot) {}

  void add() {
    m_files.add_whole_folder(m_folder);
    add_identity();
    m_files.add_link(m_folder + "/driver", "../../../bus/pci/drivers/amdgpu");
    m_files.add_link(m_folder + "/subsystem", "../../../bus/pci");
    m_files.add_link("/sys/bus/pci/devices/" + m_slot, "../../../devices/pci0000:00/" + m_slot);
    m_files.add_link("/sys/bus/pci/drivers/amdgpu/" + m_slot, "../../../../devices/pci0000:00/" + m_slot);
    add_node("card" + std::to_string(m_index), m_index);
    add_node("renderD" + std::to_string(k_first_render_minor + m_index), k_first_render_minor + m_index);
  }

 private:
  void add_identity() {
    const Chip& chip = *m_settings.chip;
    const unsigned device_class = chip.xgmi ? k_class_accelerator : k_class_display;
    const auto attribute = [&](const char* name, std::string text) { m_files.add_text(m_folder + "/" + name, text + "\n"); };
    attribute("class", formatted("0x%06x", device_class));
    attribute("vendor", formatted("0x%04x", k_amd_vendor));
    attribute("device", formatted("0x%04x", chip.device_id));
    attribute("subsystem_vendor", formatted("0x%04x", k_amd_vendor));
    attribute("subsystem_device", formatted("0x%04x", chip.device_id));
    attribute("revision", "0x00");
    attribute("numa_node", "-1");
    attribute("unique_id", formatted("%016" PRIx64, unique_id(m_index)));
    attribute("mem_info_vram_total", std::to_string(m_settings.vram_bytes));
    attribute("mem_info_vis_vram_total", std::to_string(m_settings.vram_bytes));
    attribute("uevent", formatted("DRIVER=amdgpu\nPCI_CLASS=%05X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s",
                                  device_class, k_amd_vendor, chip.device_id, k_amd_vendor, chip.device_id, m_slot.c_str()));
  }

  void add_node(const std::string& name, unsigned minor) {
    const std::string folder = m_folder + "/drm/" + name;
    const std::string target = "devices/pci0000:00/" + m_slot + "/drm/" + name;
    const std::string number = formatted("%u:%u", k_drm_major, minor);
    m_files.add_text(folder + "/dev", number + "\n");
    m_files.add_text(folder + "/uevent", formatted("MAJOR=%u\nMINOR=%u\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", k_drm_major, minor,
                                                   name.c_str()));
    m_files.add_link(folder + "/device", "../../../" + m_slot);
    m_files.add_link(folder + "/subsystem", "../../../../../class/drm");
    m_files.add_link("/sys/class/drm/" + name, "../../" + target);
    m_files.add_link("/sys/dev/char/" + number, "../../" + target);
    // A card's node drives displays, of which there are none: it leads to the same GPU.
    m_files.add_device("/dev/dri/" + name, {Device::render, m_index}, k_drm_major, minor);
  }

  FileTree& m_files;
  const Settings& m_settings;
  const unsigned m_index;
  const std::string m_slot, m_folder;
};

}  // namespace

void add_pci_devices(FileTree& files, const Settings& settings) {
  for (const char* folder : {"/dev/dri", "/sys/class/drm", "/sys/module/amdgpu", "/sys/bus/pci/drivers/amdgpu"}) {
    files.add_whole_folder(folder);
  }
  files.add_text("/sys/module/amdgpu/initstate", "live\n");
  files.add_link("/sys/module/amdgpu/drivers/pci:amdgpu", "../../../bus/pci/drivers/amdgpu");
  files.add_link("/sys/bus/pci/drivers/amdgpu/module", "../../../../module/amdgpu");
  files.add_text("/sys/class/drm/version", "drm 1.1.0 20060810\n");
  for (unsigned i = 0; i < settings.gpu_count; ++i) PciDevice(files, settings, i).add();
}

}  // namespace kerncap::softgpu

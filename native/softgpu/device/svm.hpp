// Shared virtual memory: attributes of ranges of the program's own memory, and with them what each GPU may reach of it.
// Registered host memory and managed memory both come this way.
//
// Nothing migrates: memory stays where it is, and locations are remembered only to be asked for. XNACK is off, so a
// GPU reaches what it was given access to, from then on, and nothing else.
#pragma once

#include <linux/kfd_ioctl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "softgpu/device/gpu.hpp"
#include "softgpu/memory/host_mappings.hpp"

namespace kerncap::softgpu {

class SvmRanges {
 public:
  explicit SvmRanges(const std::vector<std::unique_ptr<Gpu>>& gpus) noexcept : m_gpus(gpus) {}

  // 0 or a negative errno. `mappings`: what the program itself may do there.
  int set(std::uint64_t begin, std::uint64_t size_bytes, std::span<const kfd_ioctl_svm_attribute> attributes,
          std::span<const HostMapping> mappings);
  int get(std::uint64_t begin, std::uint64_t size_bytes, std::span<kfd_ioctl_svm_attribute> attributes) const;

 private:
  struct Attributes {
    std::uint32_t preferred_location = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
    std::uint32_t prefetch_location = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
    std::uint32_t flags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT;
    std::uint32_t granularity = 9;
    std::uint32_t access = 0, access_in_place = 0;  // bit i: GPU i
  };
  struct Range {
    std::uint64_t end;
    Attributes attributes;
  };

  [[nodiscard]] const Gpu* gpu(std::uint32_t id) const noexcept;
  [[nodiscard]] bool is_location(std::uint32_t value) const noexcept;
  int apply(Attributes& attributes, const kfd_ioctl_svm_attribute& attribute) const;
  void split(std::uint64_t at);
  void map(std::uint64_t begin, const Range& range, const Attributes& before, std::span<const HostMapping> mappings);

  const std::vector<std::unique_ptr<Gpu>>& m_gpus;
  mutable std::mutex m_mutex;
  std::map<std::uint64_t, Range> m_ranges;  // by begin; disjoint
};

}  // namespace kerncap::softgpu

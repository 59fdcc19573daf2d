#include "softgpu/exec/launch_plan.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_entry_alignment = 256;
// In front of a kernel with preloaded arguments stands code that loads them, for firmware that does not: skipped.
constexpr std::uint64_t k_preload_prologue_bytes = 256;
constexpr std::uint32_t k_group_limit = 1024;

[[nodiscard]] core::Error refuse(std::string why) {
  return {core::ErrorCode::invalid_argument, std::move(why)};
}

class SgprWriter {
 public:
  explicit SgprWriter(std::array<std::uint32_t, 16>& sgprs) noexcept : m_sgprs(sgprs) {}
  void put(std::uint32_t value) noexcept {
    if (m_next < m_sgprs.size()) m_sgprs[m_next++] = value;
  }
  void put64(std::uint64_t value) noexcept {
    put(static_cast<std::uint32_t>(value));
    put(static_cast<std::uint32_t>(value >> 32));
  }

 private:
  std::array<std::uint32_t, 16>& m_sgprs;
  std::size_t m_next = 0;
};

[[nodiscard]] core::Result<void> fill_user_sgprs(LaunchPlan& plan, const AddressSpace::View& view) {
  const KernelDescriptor& kernel = plan.kernel;
  const Dispatch& dispatch = plan.dispatch;
  SgprWriter sgprs(plan.user_sgprs);
  if (kernel.private_segment_buffer) {
    for (const std::uint32_t word : dispatch.scratch_descriptor) sgprs.put(word);
  }
  if (kernel.dispatch_ptr) sgprs.put64(dispatch.packet_va);
  if (kernel.queue_ptr) sgprs.put64(dispatch.queue_va);
  if (kernel.kernarg_ptr) sgprs.put64(dispatch.kernarg_va);
  if (kernel.dispatch_id) sgprs.put64(dispatch.dispatch_id);
  if (kernel.flat_scratch_init) sgprs.put64(dispatch.scratch != nullptr ? dispatch.scratch->base() : 0);
  if (kernel.private_segment_size) sgprs.put(dispatch.private_segment_size_bytes);
  for (unsigned i = 0; i < kernel.preload_dwords; ++i) {
    const std::uint64_t va = dispatch.kernarg_va + 4 * (std::uint64_t{kernel.preload_offset_dwords} + i);
    const std::byte* host = view.host(va, 4, Rights::read);
    if (host == nullptr) return refuse("kernel arguments to preload are not in memory of this GPU");
    std::uint32_t word;
    std::memcpy(&word, host, sizeof word);
    sgprs.put(word);
  }
  return {};
}

[[nodiscard]] core::Result<void> check_sizes(LaunchPlan& plan) {
  const Dispatch& dispatch = plan.dispatch;
  std::uint64_t items = 1;
  plan.group_count = 1;
  for (unsigned i = 0; i < 3; ++i) {
    if (dispatch.grid[i] == 0 || dispatch.group[i] == 0) return refuse("dispatch with an empty grid or work-group");
    items *= dispatch.group[i];
    plan.groups[i] = (dispatch.grid[i] - 1) / dispatch.group[i] + 1;
    plan.group_count *= plan.groups[i];
  }
  if (items > k_group_limit) return refuse("work-group of " + std::to_string(items) + " work-items; at most 1024 fit");
  if (dispatch.group_segment_size_bytes > dispatch.max_lds_bytes) {
    return refuse("work-group that wants " + std::to_string(dispatch.group_segment_size_bytes) + " bytes of LDS of " +
                  std::to_string(dispatch.max_lds_bytes));
  }
  if (dispatch.group_segment_size_bytes < plan.kernel.group_segment_bytes) {
    return refuse("dispatch with " + std::to_string(dispatch.group_segment_size_bytes) + " bytes of LDS of a kernel that uses " +
                  std::to_string(plan.kernel.group_segment_bytes));
  }
  if (plan.kernel.is_split && dispatch.group_segment_size_bytes != 0) {
    return refuse("LDS for a kernel whose work-groups are split over compute units (tgsplit)");
  }
  const std::uint64_t scratch_bytes = std::uint64_t{dispatch.private_segment_size_bytes} * plan.lanes();
  if (scratch_bytes != 0 && (dispatch.scratch == nullptr || dispatch.scratch->bytes_per_wave() < scratch_bytes)) {
    return refuse("kernel that needs " + std::to_string(scratch_bytes) + " bytes of scratch memory for a wave; the queue has " +
                  std::to_string(dispatch.scratch == nullptr ? 0 : dispatch.scratch->bytes_per_wave()));
  }
  const std::uint32_t waves = plan.waves_per_group();
  if (scratch_bytes != 0 && dispatch.scratch->count() < waves) {
    return refuse("work-group of " + std::to_string(waves) + " waves with scratch memory for " + std::to_string(dispatch.scratch->count()));
  }
  return {};
}

// Work-groups for which all compute units together have wave slots, vector registers and LDS.
[[nodiscard]] std::uint64_t room_for_groups(const LaunchPlan& plan) noexcept {
  const Dispatch& dispatch = plan.dispatch;
  const ComputeUnits& units = dispatch.units;
  if (units.count == 0) return plan.group_count;
  const std::uint32_t waves = plan.waves_per_group();
  const std::uint32_t registers = std::max(1U, 0U + plan.kernel.vgprs + plan.kernel.agprs);
  const std::uint32_t waves_per_simd = std::min(units.waves_per_simd, units.registers_per_simd / registers);
  std::uint32_t groups = units.simds * waves_per_simd / waves;
  if (dispatch.group_segment_size_bytes != 0) groups = std::min(groups, units.lds_bytes / dispatch.group_segment_size_bytes);
  return std::uint64_t{units.count} * std::max(groups, 1U);
}

}  // namespace

core::Result<LaunchPlan> LaunchPlan::make(Dispatch dispatch) {
  const AddressSpace::View view(*dispatch.space);
  LaunchPlan plan;
  plan.dispatch = std::move(dispatch);
  const std::uint64_t descriptor_va = plan.dispatch.descriptor_va;
  const std::byte* bytes = view.host(descriptor_va, k_descriptor_bytes, Rights::read);
  if (bytes == nullptr) return refuse("kernel descriptor that is not in memory of this GPU");
  const std::span<const std::byte, k_descriptor_bytes> descriptor(bytes, k_descriptor_bytes);
  core::Result<KernelDescriptor> kernel = KernelDescriptor::parse(plan.dispatch.target, descriptor);
  if (!kernel) return kernel.error();
  plan.kernel = kernel.value();
  plan.entry_pc = descriptor_va + static_cast<std::uint64_t>(plan.kernel.entry_offset);
  if (plan.entry_pc % k_entry_alignment != 0) return refuse("kernel entry that is not aligned to 256 bytes");
  if (plan.kernel.preload_dwords != 0) plan.entry_pc += k_preload_prologue_bytes;
  if (core::Result<void> sizes = check_sizes(plan); !sizes) return sizes.error();
  if (core::Result<void> filled = fill_user_sgprs(plan, view); !filled) return filled.error();
  plan.max_resident_groups = room_for_groups(plan);
  return plan;
}

}  // namespace kerncap::softgpu

// Hidden arguments by LLVM's names for their kinds (AMDGPU usage guide, code object v5 metadata).
#include "replay/kernarg.hpp"

#include <cstring>
#include <optional>

namespace kerncap::replay {
namespace {

std::optional<int> axis_of(const std::string& kind, std::string_view stem) {
  if (!kind.starts_with(stem) || kind.size() != stem.size() + 1) return std::nullopt;
  const int axis = kind.back() - 'x';
  return axis >= 0 && axis < 3 ? std::optional(axis) : std::nullopt;
}

bool is_pointer(const std::string& kind) {
  for (const char* known : {"hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_default_queue",
                            "hidden_completion_action", "hidden_multigrid_sync_arg", "hidden_heap_v1",
                            "hidden_queue_ptr"}) {
    if (kind == known) return true;
  }
  return false;
}

}  // namespace

std::vector<std::byte> rebuild_kernarg(const Plan& plan, const std::uint32_t (&grid)[3],
                                       const std::uint32_t (&block)[3], std::uint32_t dynamic_lds_bytes) {
  std::vector<std::byte> kernarg = plan.kernarg;
  for (const HiddenSlot& slot : plan.hidden) {
    std::byte* at = &kernarg[slot.offset];
    const auto put = [&](std::uint64_t value) {
      std::memcpy(at, &value, std::min<std::uint64_t>(slot.bytes, sizeof value));
    };
    if (const auto axis = axis_of(slot.kind, "hidden_block_count_")) {
      put(grid[*axis] / block[*axis]);  // whole work-groups: a partial one is counted by the remainder
    } else if (const auto size_axis = axis_of(slot.kind, "hidden_group_size_")) {
      put(block[*size_axis]);
    } else if (const auto rest_axis = axis_of(slot.kind, "hidden_remainder_")) {
      put(grid[*rest_axis] % block[*rest_axis]);
    } else if (slot.kind == "hidden_dynamic_lds_size") {
      put(dynamic_lds_bytes);
    } else if (is_pointer(slot.kind)) {
      std::uint64_t value = 0;
      std::memcpy(&value, at, std::min<std::uint64_t>(slot.bytes, sizeof value));
      const bool stale = slot.kind == "hidden_queue_ptr" || slot.kind == "hidden_hostcall_buffer";
      if (stale || plan.region_at(value) == nullptr) put(0);
    }
  }
  return kernarg;
}

}  // namespace kerncap::replay

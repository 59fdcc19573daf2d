// Hidden arguments by LLVM's names for their kinds (AMDGPU usage guide, code object v5 metadata).
#include "replay/kernarg.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
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

std::uint64_t number_at(std::span<const std::byte> data, const HiddenSlot& slot) {
  std::uint64_t value = 0;
  std::memcpy(&value, &data[slot.offset], std::min<std::uint64_t>(slot.bytes, sizeof value));
  return value;
}

// What the program's runtime passed as this argument; 0 if it passed none.
std::uint64_t captured_value(const Plan& plan, const std::string& kind) {
  for (const HiddenSlot& slot : plan.hidden) {
    if (slot.kind == kind) return number_at(plan.kernarg, slot);
  }
  return 0;
}

std::uint64_t dimensions(const std::uint64_t (&grid)[3]) { return grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1; }

// The value, unless it is to be left as captured.
std::optional<std::uint64_t> value_of(const Plan& plan, const std::string& kind, const Shape& shape) {
  // Whole work-groups: a partial one is counted by the remainder.
  if (const auto axis = axis_of(kind, "hidden_block_count_")) return shape.grid[*axis] / shape.block[*axis];
  if (const auto axis = axis_of(kind, "hidden_group_size_")) return shape.block[*axis];
  if (const auto axis = axis_of(kind, "hidden_remainder_")) return shape.grid[*axis] % shape.block[*axis];
  if (kind == "hidden_dynamic_lds_size") return shape.dynamic_lds_bytes;
  if (!is_pointer(kind)) return std::nullopt;
  const std::uint64_t value = captured_value(plan, kind);
  const bool is_stale = kind == "hidden_queue_ptr" || kind == "hidden_hostcall_buffer";
  return is_stale || plan.region_at(value) == nullptr ? 0 : value;
}

}  // namespace

std::vector<std::byte> rebuild_kernarg(const Plan& plan, bool for_variant, const Shape& shape) {
  std::vector<std::byte> kernarg = plan.kernarg;
  if (for_variant) {
    // Explicit arguments come first in both; behind them nothing of the captured segment is where it was.
    std::uint64_t explicit_bytes = kernarg.size();
    for (const auto* slots : {&plan.hidden, &plan.variant_hidden}) {
      for (const HiddenSlot& slot : *slots) explicit_bytes = std::min(explicit_bytes, slot.offset);
    }
    kernarg.resize(explicit_bytes);
    kernarg.resize(std::max<std::uint64_t>(plan.variant_kernarg_bytes, explicit_bytes));
  }
  for (const HiddenSlot& slot : for_variant ? plan.variant_hidden : plan.hidden) {
    std::optional<std::uint64_t> value = value_of(plan, slot.kind, shape);
    if (!value && for_variant) {
      value = slot.kind == "hidden_grid_dims" ? dimensions(shape.grid) : captured_value(plan, slot.kind);
    }
    if (value) std::memcpy(&kernarg[slot.offset], &*value, std::min<std::uint64_t>(slot.bytes, sizeof *value));
  }
  return kernarg;
}

}  // namespace kerncap::replay

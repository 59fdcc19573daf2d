// Hidden arguments by LLVM's names for their kinds (AMDGPU usage guide, code object v5 metadata).
#include "hsa/driver/hidden_arguments.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace kerncap::hsa {
namespace {

using replay::Launch;
using replay::Plan;

std::optional<int> axis_of(const std::string& kind, std::string_view stem) {
  if (!kind.starts_with(stem) || kind.size() != stem.size() + 1) return std::nullopt;
  const int axis = kind.back() - 'x';
  return axis >= 0 && axis < 3 ? std::optional(axis) : std::nullopt;
}

bool is_pointer(const std::string& kind) {
  for (const char* known : {"hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_default_queue",
                            "hidden_completion_action", "hidden_multigrid_sync_arg", "hidden_heap_v1"}) {
    if (kind == known) return true;
  }
  return false;
}

std::uint64_t dimensions(const std::uint64_t (&grid)[3]) { return grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1; }

}  // namespace

bool HiddenArguments::read_line(std::string_view what, replay::PlanLine& line, const Plan& plan) {
  if (what != "slot") return false;
  const bool is_variant = line.of_variant();
  Slot slot{line.number(), line.number(), {}};
  slot.kind = line.word();
  const std::uint64_t room = is_variant ? plan.variant_kernarg_bytes : plan.kernarg.size();
  line.ok = line.ok && slot.offset <= room && slot.bytes <= room - slot.offset;
  (is_variant ? m_variant : m_captured).push_back(std::move(slot));
  return true;
}

std::uint64_t HiddenArguments::captured_value(const Plan& plan, const std::string& kind) const {
  std::uint64_t value = 0;
  const auto slot =
      std::find_if(m_captured.begin(), m_captured.end(), [&](const Slot& each) { return each.kind == kind; });
  if (slot != m_captured.end()) {
    std::memcpy(&value, &plan.kernarg[slot->offset], std::min<std::uint64_t>(slot->bytes, sizeof value));
  }
  return value;
}

std::optional<std::uint64_t> HiddenArguments::value_of(const Plan& plan, const std::string& kind, const Launch& launch,
                                                       std::uint64_t queue) const {
  // Whole work-groups: a partial one is counted by the remainder.
  if (const auto axis = axis_of(kind, "hidden_block_count_")) return launch.grid[*axis] / launch.block[*axis];
  if (const auto axis = axis_of(kind, "hidden_group_size_")) return launch.block[*axis];
  if (const auto axis = axis_of(kind, "hidden_remainder_")) return launch.grid[*axis] % launch.block[*axis];
  if (kind == "hidden_dynamic_lds_size") return launch.dynamic_lds_bytes;
  if (kind == "hidden_queue_ptr") return queue;
  if (!is_pointer(kind)) return std::nullopt;
  const std::uint64_t value = captured_value(plan, kind);
  return kind == "hidden_hostcall_buffer" || plan.region_at(value) == nullptr ? 0 : value;
}

std::vector<std::byte> HiddenArguments::rebuild(const Plan& plan, const Launch& launch, std::uint64_t queue) const {
  std::vector<std::byte> kernarg(launch.kernarg.begin(), launch.kernarg.end());
  if (launch.is_variant) {
    // Explicit arguments come first in both; behind them nothing of the captured segment is where it was.
    std::uint64_t explicit_bytes = plan.kernarg.size();
    for (const auto* slots : {&m_captured, &m_variant}) {
      for (const Slot& slot : *slots) explicit_bytes = std::min(explicit_bytes, slot.offset);
    }
    kernarg.resize(explicit_bytes);
    kernarg.resize(std::max<std::uint64_t>(plan.variant_kernarg_bytes, explicit_bytes));
  }
  for (const Slot& slot : launch.is_variant ? m_variant : m_captured) {
    std::optional<std::uint64_t> value = value_of(plan, slot.kind, launch, queue);
    if (!value && launch.is_variant) {
      value = slot.kind == "hidden_grid_dims" ? dimensions(launch.grid) : captured_value(plan, slot.kind);
    }
    if (value) std::memcpy(&kernarg[slot.offset], &*value, std::min<std::uint64_t>(slot.bytes, sizeof *value));
  }
  return kernarg;
}

}  // namespace kerncap::hsa

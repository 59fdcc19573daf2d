#include "softgpu/device/packet_text.hpp"

#include "softgpu/device/formatted.hpp"
#include "softgpu/device/kernel_name.hpp"

namespace kerncap::softgpu {
namespace {

using Wide = unsigned long long;  // what %llx takes

[[nodiscard]] std::string dispatch_text(const AddressSpace& space, const aql::KernelDispatch& packet) {
  const auto& grid = packet.grid_size;
  const auto& group = packet.workgroup_size;
  return "kernel " + kernel_name(space, packet.kernel_object) +
         formatted(", grid %u x %u x %u work-items in groups of %u x %u x %u, LDS %u bytes, scratch %u bytes each, "
                   "arguments at 0x%llx",
                   grid[0], grid[1], grid[2], group[0], group[1], group[2], packet.group_segment_size,
                   packet.private_segment_size, static_cast<Wide>(packet.kernarg_address));
}

[[nodiscard]] std::string barrier_text(const aql::Barrier& packet, const char* which) {
  std::string signals;
  for (const std::uint64_t signal : packet.dep_signal) {
    if (signal != 0) signals += formatted(" 0x%llx", static_cast<Wide>(signal));
  }
  return signals.empty() ? "barrier" : std::string("barrier until ") + which + " of the signals is 0:" + signals;
}

[[nodiscard]] std::string barrier_value_text(const aql::BarrierValue& packet) {
  static constexpr const char* k_conditions[] = {"==", "!=", "<", ">="};
  if (packet.signal == 0) return "barrier";
  return formatted("barrier until the signal 0x%llx & 0x%llx %s %lld", static_cast<Wide>(packet.signal),
                   static_cast<Wide>(packet.mask), packet.condition < 4 ? k_conditions[packet.condition] : "?",
                   static_cast<long long>(packet.value));
}

[[nodiscard]] std::string vendor_text(const aql::Packet& packet) {
  switch (static_cast<aql::VendorFormat>(packet.barrier_value.format)) {
    case aql::VendorFormat::pm4_ib: return "PM4 commands";
    case aql::VendorFormat::barrier_value: return barrier_value_text(packet.barrier_value);
  }
  return formatted("vendor packet of format %u", packet.barrier_value.format);
}

[[nodiscard]] std::string request_text(const AddressSpace& space, const aql::Packet& packet) {
  const auto type = static_cast<aql::PacketType>(packet.header & 0xFF);
  switch (type) {
    case aql::PacketType::kernel_dispatch: return dispatch_text(space, packet.dispatch);
    case aql::PacketType::barrier_and: return barrier_text(packet.barrier, "each");
    case aql::PacketType::barrier_or: return barrier_text(packet.barrier, "one");
    case aql::PacketType::vendor_specific: return vendor_text(packet);
    default: return formatted("packet of type %u", static_cast<unsigned>(type));
  }
}

}  // namespace

std::string packet_text(const AddressSpace& space, const aql::Packet& packet) {
  std::string text = request_text(space, packet);
  if ((packet.header & aql::k_header_barrier) != 0) text += ", after all before it";
  // All packets have it at the same place.
  const std::uint64_t signal = packet.dispatch.completion_signal;
  if (signal != 0) text += formatted(", completes 0x%llx", static_cast<Wide>(signal));
  return text;
}

}  // namespace kerncap::softgpu

#include "softgpu/device/reach.hpp"

#include "softgpu/memory/readable.hpp"

namespace kerncap::softgpu {

std::string_view whose_memory(const Gpu& gpu, std::span<const std::unique_ptr<Gpu>> all, std::uint64_t address) noexcept {
  for (const auto& other : all) {
    if (other.get() == &gpu) continue;
    const AddressSpace::View view(other->space);
    if (view.find(address).rights != Rights::none) return "memory of another GPU's that this one was not given access to";
  }
  // The page at 0 and its like: no program has memory there.
  if (address >= k_address_begin && is_readable(address, address + 1)) return "the host's memory, which this GPU was not given access to";
  return {};
}

}  // namespace kerncap::softgpu

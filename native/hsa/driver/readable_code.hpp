// Loaded code that the processor reads like memory of its own: on the software GPU a copy of a few bytes by the device
// takes as long as a small kernel, and the variables of a code object are read after each run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "replay/watch.hpp"

namespace kerncap::hsa {

class ReadableCode {
 public:
  // Keeps a range readable until it is destroyed: before the code there is unloaded, as its addresses may become
  // those of something else.
  using Range = std::shared_ptr<const replay::AddressRange>;

  [[nodiscard]] Range add(const replay::AddressRange& range) {
    std::erase_if(m_ranges, [](const auto& each) { return each.expired(); });
    Range added = std::make_shared<const replay::AddressRange>(range);
    m_ranges.push_back(added);
    return added;
  }

  // The bytes there, if all of them are in one range; else null.
  [[nodiscard]] const std::byte* find(std::uint64_t address, std::uint64_t bytes) const {
    const bool is_there = std::any_of(m_ranges.begin(), m_ranges.end(), [&](const auto& each) {
      const Range code = each.lock();
      return code != nullptr && code->base <= address && bytes <= code->bytes &&
             address - code->base <= code->bytes - bytes;
    });
    return is_there ? reinterpret_cast<const std::byte*>(address) : nullptr;
  }

 private:
  std::vector<std::weak_ptr<const replay::AddressRange>> m_ranges;
};

}  // namespace kerncap::hsa

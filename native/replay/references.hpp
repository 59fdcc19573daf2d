// Which module variables does captured memory point to? Conservative: every aligned word that looks like an address.
#pragma once

#include <set>
#include <span>

#include "replay/plan.hpp"

namespace kerncap::replay {

class References {
 public:
  explicit References(const Plan& plan);

  // Whether there is anything to look for.
  [[nodiscard]] bool wanted() const noexcept { return m_begin < m_end; }
  // Any piece of memory; only whole words at multiples of 8 from its begin count.
  void look_at(std::span<const std::byte> data);
  [[nodiscard]] const std::set<const Variable*>& found() const noexcept { return m_found; }

 private:
  const Plan& m_plan;
  std::uint64_t m_begin = ~std::uint64_t{0};     // of all variables
  std::uint64_t m_end = 0;
  std::set<const Variable*> m_found;
};

}  // namespace kerncap::replay

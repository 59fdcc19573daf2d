// Addresses of functions that captured memory holds, where the driver loads code elsewhere than it was: tables of
// virtual functions, and pointers to functions in arguments, variables and data. Such a word is replaced by where the
// function is now before the run, and back before what the run left is compared or written out.
//
// Only words at multiples of 8 that are exactly the address of such a function are replaced, and they are counted.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

class StoredFunctions {
 public:
  // Asks where the functions are in a code object that was loaded just now: its variables are as they were loaded. `is_home`:
  // captured addresses become those of this one; what any of them stored is taken back.
  core::Result<void> look_up(const Plan& plan, Driver& driver, const Code& code, bool is_variant, bool is_home);
  // Whether any function is known, so that memory has to be looked through.
  [[nodiscard]] bool wanted() const noexcept { return !m_here.empty(); }
  // Captured addresses become those of now. Returns how many words were.
  std::uint64_t bring_here(std::span<std::byte> data) const;
  // And back again.
  std::uint64_t take_back(std::span<std::byte> data) const;

 private:
  using Addresses = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // from, to; ascending
  static std::uint64_t replace(std::span<std::byte> data, const Addresses& addresses);

  Addresses m_here;
  Addresses m_back;
};

}  // namespace kerncap::replay

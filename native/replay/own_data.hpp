// Finds out whether a code object's variables, constants or instructions changed since the run before: then it counts
// launches, or keeps something from one to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/digest.hpp"
#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

class OwnData {
 public:
  OwnData(const Plan& plan, Driver& driver, const Code& code) : m_place(plan.place_of_code()), m_driver(driver), m_code(code) {}

  // Looks, and says whether anything is not as it was the last time. Of very much data only the beginning is looked at.
  core::Result<bool> look();
  // Keeps it, and puts it back as it was then; of very much the beginning.
  core::Result<void> keep();
  core::Result<void> put_back();

 private:
  Region m_place;
  Driver& m_driver;
  const Code& m_code;
  core::Digest m_last{};
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> m_kept;  // with their addresses
};

}  // namespace kerncap::replay

// Which chunks a run left as they were, where the device itself can tell: those are neither read nor hashed again.
#pragma once

#include <map>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

class Unchanged {
 public:
  Unchanged(const Plan& plan, Driver& driver) : m_plan(plan), m_driver(driver) {}

  // Before a run: what is there now.
  core::Result<void> remember();
  // After a run.
  core::Result<void> look();
  // Whether the device says that a chunk of a region's pre-state is as it was. False: nobody has looked.
  [[nodiscard]] bool is_known(const Region& region, std::size_t chunk) const;
  // The device's copies are somebody else's from now on.
  void forget();
  // Whether the device tells that of the region at all.
  [[nodiscard]] bool remembers(const Region& region) const { return m_changed.contains(&region); }

 private:
  const Plan& m_plan;
  Driver& m_driver;
  std::vector<const Region*> m_remembered;
  std::map<const Region*, std::vector<bool>> m_changed;   // by chunk; empty until somebody looks
};

}  // namespace kerncap::replay

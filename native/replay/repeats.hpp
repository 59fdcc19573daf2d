// Whether further runs from the same state leave the same: a race, or memory of its own that a code object keeps from run
// to run, shows in no single one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/plan.hpp"
#include "replay/unchanged.hpp"

namespace kerncap::replay {

class Repeats {
 public:
  // Reads a part of what a run left, at its captured address.
  using Read = std::function<core::Result<void>(const Region&, std::uint64_t, std::span<std::byte>)>;

  Repeats(const Plan& plan, Driver& driver, Read read)
      : m_plan(plan), m_read(std::move(read)), m_unchanged(plan, driver) {}

  // After the first run: on the device where it can compare, else in this process.
  core::Result<void> keep();
  // After another: whether it left something else.
  core::Result<bool> differs();
  // Names what the last run left: the same for runs that left the same. Empty: as the first.
  [[nodiscard]] core::Result<std::string> name() const;
  // Of the chunks that the last run left in another state than the first did.
  [[nodiscard]] std::uint64_t differing_bytes() const;
  // The chunks that the last run left in another state than the first did, in files like those of the first.
  core::Result<void> dump(const std::string& folder) const;

 private:
  struct Chunk {
    const Region* region;
    std::size_t index;

    [[nodiscard]] std::uint64_t offset() const { return index * region->pre->chunk_bytes; }
    [[nodiscard]] std::uint64_t bytes() const { return std::min(region->pre->chunk_bytes, region->bytes - offset()); }
  };
  struct Kept {
    Chunk chunk;
    std::vector<std::byte> data;
  };
  core::Result<std::vector<std::byte>> read(const Chunk& chunk) const;

  const Plan& m_plan;
  Read m_read;
  Unchanged m_unchanged;                 // since the first run
  std::vector<Kept> m_kept;              // of regions that the device does not compare
  std::vector<Chunk> m_differing;        // after the last run, by region
};

}  // namespace kerncap::replay

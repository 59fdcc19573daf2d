// Which address ranges a replay asks the driver for.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/plan.hpp"

namespace kerncap::cuda {

struct Reservation {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] std::uint64_t end() const noexcept { return base + bytes; }
};

// The driver grants a wanted address only in blocks of this size: smaller requests are always moved
// (docs/decisions/0020). Wider ones run into a block that the driver keeps for itself at 0x300000000.
inline constexpr std::uint64_t k_reservation_bytes = 32ull << 20;

// Memory that is mapped because a region lies in the same granule, and that is no region's.
struct Slack {
  std::vector<Reservation> gaps;         // of one granule, ascending
  [[nodiscard]] std::uint64_t base() const noexcept { return gaps.front().base; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return gaps.back().end() - base(); }
};

// Whether memory of this kind lies in ranges of the driver's; what a program registered is ordinary host memory.
[[nodiscard]] bool is_reserved(const replay::Region& region) noexcept;
// Ascending and apart: regions widened to whole blocks, neighbours in one. Not those that `managed` has.
[[nodiscard]] std::vector<Reservation> reservations_of(const std::vector<replay::Region>& regions,
                                                       const std::vector<Reservation>& managed = {});
// Ascending: what has to be allocated as managed memory, from the beginning of a block to the end of the last region in it
// and its neighbours. Not blocks that hold other memory, too.
[[nodiscard]] std::vector<Reservation> managed_blocks_of(const std::vector<replay::Region>& regions);
[[nodiscard]] bool is_within(const std::vector<Reservation>& ranges, std::uint64_t address) noexcept;
// Of every granule that regions cover in part. Regions ascend and lie apart.
[[nodiscard]] std::vector<Slack> slack_of(const std::vector<replay::Region>& regions, std::uint64_t granule_bytes);

}  // namespace kerncap::cuda

// The order in which the waves of a work-group take turns, and how many instructions a turn has.
//
// Waves take turns in passes: in each pass every wave that is neither at a barrier nor ended gets one turn.
//   hardware-like  Waves go in the order of their numbers. Turns are short at the start of a kernel and behind a barrier, and
//                  grow: waves leave a barrier nearly together, as on hardware, which programs rely on. A short turn ends at
//                  a wait for memory, too: what all waves read there, all have asked for before one of them goes on.
//   adversarial    Each pass has another order and each turn another length, from one instruction to all up to the next barrier;
//                  work-groups start in another order, too. Still legal, and so that a race shows. All of it follows from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kerncap::softgpu {

struct Schedule {
  bool is_adversarial = false;
  std::uint64_t seed = 0;
  bool counts_dispatches = true;  // each dispatch has another order; else the seed alone says it

  // "hardware-like", "adversarial" or "adversarial:SEED"; nothing for anything else.
  [[nodiscard]] static std::optional<Schedule> parse(std::string_view text) noexcept;

  // The number of the work-group that starts as the index-th of `count`.
  [[nodiscard]] std::uint64_t group_at(std::uint64_t dispatch, std::uint64_t index, std::uint64_t count) const noexcept;
};

// Of one work-group.
class WaveTurns {
 public:
  // All waves are at the kernel's entry. `dispatch` and `group` make each work-group's adversarial order another one.
  void start(const Schedule& schedule, std::uint64_t dispatch, std::uint64_t group, std::size_t waves);

  // Whether each wave had its turn in this pass; begin_pass() begins the next one.
  [[nodiscard]] bool pass_ended() const noexcept { return m_position == m_order.size(); }
  // left_barrier: all waves have just been let go.
  void begin_pass(bool left_barrier);

  // The wave whose turn it is, and how many instructions it may execute before anybody looks at the clock.
  [[nodiscard]] std::uint32_t wave() const noexcept { return m_order[m_position]; }
  [[nodiscard]] std::uint32_t budget() const noexcept;
  // Whether the turn ends at a wait for memory, too.
  [[nodiscard]] bool ends_at_wait() const noexcept { return m_short != 0; }
  // It has used its budget: the turn may go on.
  void spend(std::uint32_t executed);
  void end_turn(std::uint32_t executed);

 private:
  void choose_turn();

  std::vector<std::uint32_t> m_order;
  std::size_t m_position = 0;
  std::uint32_t m_turn = 0;   // instructions of each turn of this pass; adversarial: what is left of this one
  std::uint32_t m_short = 0;  // instructions of each wave that are still to be executed in short turns
  std::uint32_t m_most = 0;   // instructions of the longest turn of this pass
  bool m_is_adversarial = false;
  std::uint64_t m_random = 0;
};

}  // namespace kerncap::softgpu

#include "softgpu/exec/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace kerncap::softgpu {
namespace {

// Measured: docs/decisions/0042-turns-of-waves.md.
constexpr std::uint32_t k_short_turn = 8;
constexpr std::uint32_t k_short_instructions = 128;  // of each wave, from the start or from a barrier
constexpr std::uint32_t k_longest_turn = 2048;
constexpr std::uint32_t k_endless_turn = 1U << 16;  // adversarial: mostly up to the next barrier
constexpr unsigned k_turn_lengths = 12;             // adversarial: powers of two up to k_longest_turn

// splitmix64: every seed is a good one.
[[nodiscard]] std::uint64_t next_random(std::uint64_t& state) noexcept {
  state += 0x9E3779B97F4A7C15;
  std::uint64_t value = state;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

[[nodiscard]] std::uint64_t mixed(std::uint64_t seed, std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t state = seed;
  state = next_random(state) ^ a;
  state = next_random(state) ^ b;
  return state;
}

}  // namespace

std::optional<Schedule> Schedule::parse(std::string_view text) noexcept {
  constexpr std::string_view k_adversarial = "adversarial";
  if (text == "hardware-like") return Schedule{};
  if (!text.starts_with(k_adversarial)) return std::nullopt;
  text.remove_prefix(k_adversarial.size());
  Schedule schedule{.is_adversarial = true};
  if (text.empty()) return schedule;
  if (text.front() != ':') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), schedule.seed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return schedule;
}

// index * step + first, modulo count: each work-group once, as step and count have no common factor.
std::uint64_t Schedule::group_at(std::uint64_t dispatch, std::uint64_t index, std::uint64_t count) const noexcept {
  if (!is_adversarial || count > UINT32_MAX) return index;  // so many never end anyway, and the product must fit
  std::uint64_t random = mixed(seed, dispatch, count);
  std::uint64_t step = next_random(random) % count;
  while (std::gcd(step, count) != 1) step = (step + 1) % count;
  const std::uint64_t first = next_random(random) % count;
  return (index * step % count + first) % count;
}

void WaveTurns::start(const Schedule& schedule, std::uint64_t dispatch, std::uint64_t group, std::size_t waves) {
  m_is_adversarial = schedule.is_adversarial;
  m_random = mixed(schedule.seed, dispatch, group);
  m_order.resize(waves);
  std::iota(m_order.begin(), m_order.end(), 0U);
  begin_pass(true);
}

void WaveTurns::begin_pass(bool left_barrier) {
  m_position = 0;
  if (m_is_adversarial) {
    for (std::size_t i = m_order.size(); i > 1; --i) std::swap(m_order[i - 1], m_order[next_random(m_random) % i]);
    choose_turn();
    return;
  }
  if (left_barrier) {
    // A wave alone has nobody to keep pace with.
    m_short = m_order.size() > 1 ? k_short_instructions : 0;
    m_turn = m_order.size() > 1 ? k_short_turn : k_longest_turn;
  } else if (m_short > m_most) {
    m_short -= m_most;
  } else {
    m_short = 0;
    m_turn = std::min(2 * m_turn, k_longest_turn);
  }
  m_most = 0;
}

std::uint32_t WaveTurns::budget() const noexcept { return std::min(m_turn, k_longest_turn); }

void WaveTurns::spend(std::uint32_t executed) {
  if (m_is_adversarial && executed < m_turn) {
    m_turn -= executed;
  } else {
    end_turn(executed);
  }
}

void WaveTurns::end_turn(std::uint32_t executed) {
  ++m_position;
  m_most = std::max(m_most, executed);
  if (m_is_adversarial && !pass_ended()) choose_turn();
}

void WaveTurns::choose_turn() {
  const std::uint64_t random = next_random(m_random);
  m_turn = (random & 1) != 0 ? k_endless_turn : 1U << (random >> 32) % k_turn_lengths;
}

}  // namespace kerncap::softgpu

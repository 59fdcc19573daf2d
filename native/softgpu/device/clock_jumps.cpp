#include "softgpu/device/clock_jumps.hpp"

#include <charconv>

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_ns_per_s = 1'000'000'000;
constexpr std::uint64_t k_longest_start_s = 100 * 86'400;
// A jump is of one of these lengths, up to its double: 3 s, 12 s and so on, up to 55 hours. A kernel that waits for seconds, minutes
// or hours finds each within a few runs.
constexpr std::uint64_t k_shortest_jump_s = 3;
constexpr unsigned k_lengths = 9;
constexpr unsigned k_bits_per_length = 2;

// splitmix64
[[nodiscard]] std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t value = state += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

ClockJumps::ClockJumps(std::optional<std::uint64_t> seed) noexcept : m_jumps(seed.has_value()), m_random(seed.value_or(0)) {
  if (m_jumps) m_ahead_ns = next_random(m_random) % (k_longest_start_s * k_ns_per_s);
}

bool ClockJumps::parse(std::string_view text, std::optional<std::uint64_t>& seed) noexcept {
  constexpr std::string_view k_jumps = "jumps:";
  seed.reset();
  if (text == "steady") return true;
  if (!text.starts_with(k_jumps)) return false;
  text.remove_prefix(k_jumps.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed.emplace());
  return error == std::errc{} && end == text.data() + text.size();
}

std::uint64_t ClockJumps::next_ns() noexcept {
  if (!m_jumps) return 0;
  const std::lock_guard lock(m_mutex);
  const std::uint64_t length_ns = (k_shortest_jump_s << next_random(m_random) % k_lengths * k_bits_per_length) * k_ns_per_s;
  m_ahead_ns += length_ns + next_random(m_random) % length_ns;
  return m_ahead_ns;
}

}  // namespace kerncap::softgpu

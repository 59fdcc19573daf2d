// The clocks that kernels read may jump forward between dispatches, by seconds to days: what a kernel does at another time then
// shows in a few runs. Time stamps in signals, of the host, and within a dispatch stay as they are.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

namespace kerncap::softgpu {

class ClockJumps {
 public:
  ClockJumps() = default;                    // none
  explicit ClockJumps(std::optional<std::uint64_t> seed) noexcept;
  // "steady": none; "jumps:SEED".
  [[nodiscard]] static bool parse(std::string_view text, std::optional<std::uint64_t>& seed) noexcept;
  // How far ahead the clocks of the next dispatch are; never less than of the one before.
  [[nodiscard]] std::uint64_t next_ns() noexcept;

 private:
  bool m_jumps = false;
  std::mutex m_mutex;
  std::uint64_t m_random = 0;
  std::uint64_t m_ahead_ns = 0;
};

}  // namespace kerncap::softgpu

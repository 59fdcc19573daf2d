// What kernels of ours write over what a run left on the device: something else before each run.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>

namespace kerncap::replay {

// Words begin with `pattern`, and have other bits where `mix` has them, from `seed` and their place.
struct ScrubValues {
  std::uint32_t pattern;
  std::uint32_t mix;
  std::uint32_t seed;
};

class ScrubTurns {
 public:
  // As integers, and as floats of all types, words are in turn very negative, anything, very large and zero: what is right by luck
  // with one of them is wrong with the next.
  ScrubValues next() {
    constexpr std::uint32_t k_turns[][2] = {{0xFE00'0000, 0x00FF'FFFF}, {0, ~0U}, {0x7E00'0000, 0x00FF'FFFF}, {0, 0}};
    const auto& [pattern, mix] = k_turns[m_runs++ % std::size(k_turns)];
    m_seed = m_seed * 1664525 + 1013904223;
    return {pattern, mix, m_seed};
  }

 private:
  std::uint32_t m_runs = 0;
  std::uint32_t m_seed = std::random_device()();
};

}  // namespace kerncap::replay

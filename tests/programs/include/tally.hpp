// What every test program shares: counting comparisons, and the exit code that they give.
// A program prints one line of numbers and exits 0 when something was compared and nothing was wrong, else 1.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

class Tally {
 public:
  explicit Tally(const char* name) : m_name(name) {}

  // Counts one comparison; the first few that are wrong are printed with both values.
  void expect(bool right, const char* what, std::size_t index, double got, double wanted) {
    ++m_compared;
    if (right) return;
    if (++m_wrong <= 8)
      std::printf("%s: %s[%zu] is %.17g, should be %.17g\n", m_name, what, index, got, wanted);
  }

  // Equal as values; two NaNs are equal whatever their payloads, and so are the two zeros.
  template <typename T>
  void equal(const char* what, std::size_t index, T got, T wanted) {
    const bool both_nan = got != got && wanted != wanted;
    expect(both_nan || got == wanted, what, index, static_cast<double>(got), static_cast<double>(wanted));
  }

  template <typename T>
  void equal(const char* what, const std::vector<T>& got, const std::vector<T>& wanted) {
    expect(got.size() == wanted.size(), what, 0, static_cast<double>(got.size()), static_cast<double>(wanted.size()));
    for (std::size_t i = 0; i < got.size() && i < wanted.size(); ++i) equal(what, i, got[i], wanted[i]);
  }

  void near(const char* what, std::size_t index, double got, double wanted, double bound) {
    const bool right = got == wanted || (got != got && wanted != wanted) || std::fabs(got - wanted) <= bound;
    expect(right, what, index, got, wanted);
  }

  [[nodiscard]] int finish() const {
    std::printf("%s: compared %zu, wrong %zu\n", m_name, m_compared, m_wrong);
    std::fflush(stdout);
    return m_compared > 0 && m_wrong == 0 ? 0 : 1;
  }

 private:
  const char* m_name;
  std::size_t m_compared = 0;
  std::size_t m_wrong = 0;
};

// The same numbers in every run and on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed = 1) : m_state(seed * 0x9E3779B97F4A7C15ull + 1) {}
  std::uint64_t bits() {
    m_state ^= m_state << 13;
    m_state ^= m_state >> 7;
    m_state ^= m_state << 17;
    return m_state * 0x2545F4914F6CDD1Dull;
  }
  // At least low, below high.
  double real(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }
  int whole(int low, int high) { return low + static_cast<int>((bits() >> 33) % static_cast<unsigned>(high - low)); }

 private:
  std::uint64_t m_state;
};

// Functions that stand in front of those of a compiler's library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace kerncap::rtc {

// The definition of `name` that code at `caller` would have met without us: the next one after ours, or one of a library that
// was opened for itself. nullptr: there is none.
[[nodiscard]] void* next_definition(const void* caller, const char* name) noexcept;

// `Ours` takes the real function, then what it is called with.
template <auto Ours>
class Hook;

template <typename Result, typename... Arguments, Result (*Ours)(Result (*)(Arguments...), Arguments...) noexcept>
class Hook<Ours> {
 public:
  using Function = Result (*)(Arguments...);

  // A function that calls ours with `real`. A process may hold several libraries that define it, and one of them must not get
  // the handles of another. If it holds too many, `real` itself is returned, and what it compiles is not recorded.
  static Function wrap(Function real) noexcept {
    for (std::size_t i = 0; i < k_libraries; ++i) {
      Function known = nullptr;
      if (m_real[i].compare_exchange_strong(known, real) || known == real) return k_wrappers[i];
    }
    return real;
  }

 private:
  static constexpr std::size_t k_libraries = 8;

  template <std::size_t i>
  static Result call(Arguments... arguments) {
    return Ours(m_real[i].load(std::memory_order_relaxed), arguments...);
  }

  template <std::size_t... i>
  static constexpr std::array<Function, k_libraries> make_wrappers(std::index_sequence<i...>) {
    return {&call<i>...};
  }

  static inline std::array<std::atomic<Function>, k_libraries> m_real{};
  static constexpr std::array<Function, k_libraries> k_wrappers = make_wrappers(std::make_index_sequence<k_libraries>{});
};

}  // namespace kerncap::rtc

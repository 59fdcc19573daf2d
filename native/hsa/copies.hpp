// Which engines the program's copies and fills run on. The session defers the copies while captures are under way.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

class Copies {
 public:
  struct Route {
    std::uint64_t to;
    std::uint64_t from;
    std::uint32_t engine;                            // 0: the runtime's choice
    auto operator<=>(const Route&) const = default;
  };
  void note(const Route& route) noexcept;
  [[nodiscard]] std::vector<Route> routes() const;

 private:
  mutable std::mutex m_mutex;
  std::set<Route> m_routes;
};

}  // namespace kerncap::hsa

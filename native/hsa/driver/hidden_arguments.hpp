// The arguments that the compiler adds behind a kernel's own: a runtime fills them at each launch. Their offsets and
// kinds come with the plan, in lines of this back end:
//
//   line      = "slot" role offset size kind       role: baseline | variant; LLVM's word for the kind
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/driver.hpp"
#include "replay/plan_line.hpp"

namespace kerncap::hsa {

class HiddenArguments {
 public:
  // For replay::Driver::read_line(). The segments' lengths have to be known.
  bool read_line(std::string_view what, replay::PlanLine& line, const replay::Plan& plan);

  // The kernarg segment of a launch: explicit arguments as they are given, hidden ones rebuilt by kind. A variant has
  // hidden arguments of its own, where its file says.
  // Recomputes what depends on the launch's shape. Pointers into captured memory stay as they are: that memory is there
  // again; other hidden pointers (hostcall buffer, ...) become null, and so does one that only the variant has.
  // `queue`: the queue that runs the kernel; 0 where HIP fills hidden arguments once more.
  [[nodiscard]] std::vector<std::byte> rebuild(const replay::Plan& plan, const replay::Launch& launch,
                                               std::uint64_t queue) const;

 private:
  struct Slot {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::string kind;
  };
  // What the program's runtime passed as this argument; 0 if it passed none.
  [[nodiscard]] std::uint64_t captured_value(const replay::Plan& plan, const std::string& kind) const;
  // The value, unless it is to be left as captured.
  [[nodiscard]] std::optional<std::uint64_t> value_of(const replay::Plan& plan, const std::string& kind,
                                                      const replay::Launch& launch, std::uint64_t queue) const;

  std::vector<Slot> m_captured;
  std::vector<Slot> m_variant;
};

}  // namespace kerncap::hsa

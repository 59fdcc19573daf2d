// Module variables of a code object that is not where the captured one was: a variant, which is another file with
// another layout, beside the captured code object at its own place.
//
// Pointers in captured memory lead to the captured places, and code reaches its variables by name at the places of its
// own file. So one variable may have two places in a replay. What was there before the run is in both; what the run
// writes to one is not seen through the other, and that is noted wherever it can matter. A code object that was linked
// to a variable's captured address ("fixed" in the plan) has one place of it, the captured one.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/plan.hpp"
#include "replay/stored_functions.hpp"

namespace kerncap::replay {

class MovedVariables {
 public:
  // `is_linked`: the code object is the plan's linked one.
  MovedVariables(const Plan& plan, Driver& driver, const Code& code, bool is_variant, bool is_linked)
      : m_plan(plan), m_driver(driver), m_code(code), m_is_variant(is_variant), m_is_linked(is_linked) {}

  // What variables of the captured code object hold, where that is known.
  using Contents = std::map<const Variable*, std::vector<std::byte>>;

  // Where this code object has a variable of its own of that captured name, whatever it calls it itself.
  [[nodiscard]] std::optional<std::uint64_t> named(const std::string& name, std::uint64_t bytes) const;
  // Finds the variables, and what a run starts from. `captured`: their pre-states; `initial`: right after loading. What
  // neither the program nor the captured kernel ever changed keeps the value that this code object gives it. `functions`:
  // what stored addresses of functions become.
  core::Result<void> bind(const Contents& captured, const Contents& initial, const StoredFunctions& functions);
  // From now on, runs start with this in a variable; with what it held when it was captured, as bind() found.
  void choose(const Variable& variable, std::span<const std::byte> held, const StoredFunctions& functions);
  // Before each run.
  core::Result<void> restore();
  // After the last run: brings both places of each variable together. Fails when both were written.
  core::Result<void> collect();
  // Puts what collect() found into a copy of the memory at `address`.
  void overlay(std::uint64_t address, std::span<std::byte> data) const;
  // The state of a variable after collect(), if this code object has it elsewhere.
  [[nodiscard]] const std::vector<std::byte>* state_of(const Variable& variable) const;
  // Variables that were written during the run, by name or through pointers, and have two places.
  [[nodiscard]] std::vector<std::string> written_twofold(const std::set<const Variable*>& pointed_to) const;

 private:
  struct Moved {
    const Variable* captured;
    std::uint64_t here;                   // the captured place itself, where the code object was linked to that
    bool has_original;                    // the captured place is there too
    std::vector<std::byte> original;      // there, before the run
    std::vector<std::byte> start;         // here, before the run
    std::vector<std::byte> state;         // after it
    bool was_written = false;
    std::vector<std::byte> bound_original;  // as bind() found
    std::vector<std::byte> bound_start;
  };
  // Where this code object has a variable, if it does.
  core::Result<std::optional<std::uint64_t>> place_here(const Variable& variable, const Contents& captured);
  core::Result<std::vector<std::byte>> read(std::uint64_t address, std::uint64_t bytes);

  const Plan& m_plan;
  Driver& m_driver;
  const Code& m_code;
  bool m_is_variant;
  bool m_is_linked;
  std::vector<Moved> m_moved;
};

}  // namespace kerncap::replay

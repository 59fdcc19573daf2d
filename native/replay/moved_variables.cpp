// Keeps the two places of a moved variable in step before a run, and brings them together after it.
#include "replay/moved_variables.hpp"

#include <algorithm>
#include <cstring>

namespace kerncap::replay {

using core::Error;
using core::ErrorCode;
using core::Result;

Region MovedVariables::place() const {
  Region own;
  own.device = m_plan.kernel_device;
  own.kind = Kind::code_object;
  return own;
}

Result<std::vector<std::byte>> MovedVariables::read(std::uint64_t address, std::uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  if (Result<void> done = m_driver.read(place(), address, data); !done) return done.error();
  return data;
}

Result<void> MovedVariables::bind(const Contents& captured, const Contents& initial) {
  for (const Variable& variable : m_plan.variables) {
    const auto found = captured.find(&variable);
    if (found == captured.end()) continue;
    const auto here = m_driver.variable(m_code, variable.name, variable.bytes);
    if (!here || *here == variable.address) continue;
    Moved moved{&variable, *here, m_plan.region_at(variable.address) != nullptr, found->second, found->second, {}};
    const auto first = initial.find(&variable);
    const bool untouched = first != initial.end() && first->second == found->second;
    if (untouched && !m_plan.is_written(variable)) {
      Result<std::vector<std::byte>> own = read(*here, variable.bytes);
      if (!own) return own.error();
      moved.start = std::move(own.value());
    }
    m_moved.push_back(std::move(moved));
  }
  return {};
}

Result<void> MovedVariables::restore() {
  for (const Moved& moved : m_moved) {
    if (Result<void> written = m_driver.write(place(), moved.here, moved.start); !written) return written;
  }
  return {};
}

Result<void> MovedVariables::collect() {
  for (Moved& moved : m_moved) {
    Result<std::vector<std::byte>> here = read(moved.here, moved.captured->bytes);
    if (!here) return here.error();
    moved.state = moved.original;
    if (moved.has_original) {
      Result<std::vector<std::byte>> there = read(moved.captured->address, moved.captured->bytes);
      if (!there) return there.error();
      moved.state = std::move(there.value());
    }
    for (std::size_t i = 0; i < moved.state.size(); ++i) {
      const bool through_pointer = moved.state[i] != moved.original[i];
      const bool by_name = here.value()[i] != moved.start[i];
      moved.was_written = moved.was_written || through_pointer || by_name;
      if (through_pointer && by_name) {
        return Error{ErrorCode::unsupported,
                     "the variant changes the module variable " + moved.captured->name +
                         " both by name and through a pointer in captured memory, and has it elsewhere than the "
                         "captured code object: the two changes cannot be brought together"};
      }
      if (by_name) moved.state[i] = here.value()[i];
    }
  }
  return {};
}

void MovedVariables::overlay(std::uint64_t address, std::span<std::byte> data) const {
  for (const Moved& moved : m_moved) {
    const std::uint64_t base = moved.captured->address;
    const std::uint64_t begin = std::max(address, base);
    const std::uint64_t end = std::min(address + data.size(), base + moved.state.size());
    if (begin < end) std::memcpy(&data[begin - address], &moved.state[begin - base], end - begin);
  }
}

const std::vector<std::byte>* MovedVariables::state_of(const Variable& variable) const {
  const auto found = std::find_if(m_moved.begin(), m_moved.end(),
                                  [&](const Moved& moved) { return moved.captured == &variable; });
  return found == m_moved.end() ? nullptr : &found->state;
}

std::vector<std::string> MovedVariables::written_twofold(const std::set<const Variable*>& pointed_to) const {
  std::vector<std::string> names;
  for (const Moved& moved : m_moved) {
    if (moved.was_written && pointed_to.contains(moved.captured)) names.push_back(moved.captured->name);
  }
  return names;
}

}  // namespace kerncap::replay

// Reads words. The line may hold anything.
#include "replay/plan_line.hpp"

#include <algorithm>
#include <charconv>

#include "replay/plan.hpp"

namespace kerncap::replay {

std::string_view PlanLine::word() {
  const std::size_t end = std::min(m_rest.find(' '), m_rest.size());
  const std::string_view found = m_rest.substr(0, end);
  m_rest.remove_prefix(std::min(m_rest.size(), end + 1));
  ok = ok && !found.empty();
  return found;
}

std::string_view PlanLine::rest() {
  ok = ok && !m_rest.empty();
  return m_rest;
}

std::string PlanLine::path() {
  std::string found;
  const std::string_view text = rest();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\';
    if (escaped && ++i == text.size()) return ok = false, found;
    ok = ok && (!escaped || text[i] == '\\' || text[i] == 'n');
    found += escaped && text[i] == 'n' ? '\n' : text[i];
  }
  return found;
}

std::uint64_t PlanLine::number() {
  std::string_view text = word();
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  ok = ok && fault == std::errc{} && end == text.data() + text.size();
  return value;
}

std::uint32_t PlanLine::small() {
  const std::uint64_t value = number();
  ok = ok && value <= UINT32_MAX;
  return static_cast<std::uint32_t>(value);
}

void PlanLine::dim3(std::uint32_t (&out)[3]) {
  for (std::uint32_t& value : out) value = small();
}

std::uint32_t PlanLine::device() {
  if (m_rest.starts_with("- ")) return word(), k_no_device;
  return small();
}

std::vector<std::byte> PlanLine::bytes() {
  const std::string_view text = word();
  std::vector<std::byte> found;
  if (text == "-") return found;
  ok = ok && text.size() % 2 == 0;
  for (std::size_t i = 0; ok && i < text.size(); i += 2) {
    unsigned value = 0;
    const auto [end, fault] = std::from_chars(&text[i], &text[i] + 2, value, 16);
    ok = fault == std::errc{} && end == &text[i] + 2;
    found.push_back(static_cast<std::byte>(value));
  }
  return found;
}

bool PlanLine::of_variant() {
  const std::string_view role = word();
  ok = ok && (role == "baseline" || role == "variant");
  return role == "variant";
}

}  // namespace kerncap::replay

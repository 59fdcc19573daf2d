// Reads _GLOBAL__N__ HASH _ LENGTH _ FILE _ HASH, where a hash has eight hexadecimal digits.
#include "cuda/driver/unit_names.hpp"

#include <charconv>
#include <string>

namespace kerncap::cuda {
namespace {

constexpr std::size_t k_hash_digits = 8;

bool is_hash(std::string_view text) {
  return text.size() == k_hash_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The symbol with both hashes blanked; as it is where it has none.
std::string without_unit(std::string_view name) {
  std::string made(name);
  for (const std::string_view mark : {std::string_view("_GLOBAL__N__"), std::string_view("_INTERNAL_")}) {
    for (std::size_t at = name.find(mark); at != std::string_view::npos; at = name.find(mark, at + 1)) {
      const std::size_t first = at + mark.size();
      const std::size_t digits = first + k_hash_digits + 1;
      if (digits >= name.size() || !is_hash(name.substr(first, k_hash_digits)) || name[digits - 1] != '_') continue;
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), length);
      const std::size_t file = static_cast<std::size_t>(end - name.data()) + 1;
      if (error != std::errc() || length > name.size() || file + length + 1 + k_hash_digits > name.size()) continue;
      const std::size_t second = file + length + 1;
      if (name[file - 1] != '_' || name[second - 1] != '_' || !is_hash(name.substr(second, k_hash_digits))) continue;
      made.replace(first, k_hash_digits, k_hash_digits, '.');
      made.replace(second, k_hash_digits, k_hash_digits, '.');
    }
  }
  return made;
}

}  // namespace

bool same_but_for_unit(std::string_view name, std::string_view other) {
  return without_unit(name) == without_unit(other);
}

}  // namespace kerncap::cuda

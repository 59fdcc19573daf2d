// Reads _GLOBAL__N__ HASH _ LENGTH _ and what follows: the hash has eight hexadecimal digits, and only it is the folder's.
#include "cuda/driver/unit_names.hpp"

#include <string>

namespace kerncap::cuda {
namespace {

constexpr std::size_t k_hash_digits = 8;

bool is_hash(std::string_view text) {
  return text.size() == k_hash_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The symbol with that hash blanked; as it is where it has none.
std::string without_unit(std::string_view name) {
  std::string made(name);
  for (const std::string_view mark : {std::string_view("_GLOBAL__N__"), std::string_view("_INTERNAL_")}) {
    for (std::size_t at = name.find(mark); at != std::string_view::npos; at = name.find(mark, at + 1)) {
      const std::size_t hash = at + mark.size();
      if (!is_hash(name.substr(hash, k_hash_digits))) continue;
      const std::string_view rest = name.substr(hash + k_hash_digits);
      const std::size_t digits = rest.find_first_not_of("0123456789", 1);
      const bool has_length = rest.starts_with('_') && digits != std::string_view::npos && digits > 1 && rest[digits] == '_';
      if (has_length) made.replace(hash, k_hash_digits, k_hash_digits, '.');
    }
  }
  return made;
}

}  // namespace

bool same_but_for_unit(std::string_view name, std::string_view other) {
  return without_unit(name) == without_unit(other);
}

}  // namespace kerncap::cuda

// 64-bit integer arithmetic, division and bit operations.
#include "arithmetic.hpp"

int main() {
  return check_arithmetic<Integers<std::int64_t, std::uint64_t, __int128>, std::int64_t>("arithmetic_i64");
}

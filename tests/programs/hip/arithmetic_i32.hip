// 32-bit integer arithmetic, division and bit operations.
#include "arithmetic.hpp"

int main() {
  return check_arithmetic<Integers<std::int32_t, std::uint32_t, std::int64_t>, std::int32_t>("arithmetic_i32");
}

// Arithmetic, division, square root and comparison in bf16, denormals, infinities and NaNs included.
#include "arithmetic.hpp"

int main() { return check_arithmetic<Floats<__bf16>, __bf16>("arithmetic_bf16"); }

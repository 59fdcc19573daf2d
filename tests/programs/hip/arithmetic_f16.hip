// Arithmetic, division, square root and comparison in f16, denormals, infinities and NaNs included.
#include "arithmetic.hpp"

int main() { return check_arithmetic<Floats<_Float16>, _Float16>("arithmetic_f16"); }

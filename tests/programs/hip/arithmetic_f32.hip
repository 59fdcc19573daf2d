// Arithmetic, division, square root and comparison in f32, denormals, infinities and NaNs included.
#include "arithmetic.hpp"

int main() { return check_arithmetic<Floats<float>, float>("arithmetic_f32"); }

// Arithmetic, division, square root and comparison in f64, denormals, infinities and NaNs included.
#include "arithmetic.hpp"

int main() { return check_arithmetic<Floats<double>, double>("arithmetic_f64"); }

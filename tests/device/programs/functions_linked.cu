// nvcc: -rdc=true
// The same with separate compilation: functions have addresses instead of numbers.
#include "functions.cu"

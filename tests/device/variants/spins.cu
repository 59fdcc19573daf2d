// known_times.cu's kernel in several ways. WAY: 0 right, 1 wrong, 2 a null pointer, 3 for ever
#include "ways.cuh"

__global__ void takes_200_us(int* runs) {
  spin(NS);
#if WAY == 2
  *reinterpret_cast<volatile int*>(16) = NS;
#elif WAY == 3
  // A loop over a variable of its own is left out by the compiler.
  while (*static_cast<volatile int*>(runs) >= 0) {
  }
#endif
  *runs += WAY == 1 ? 2 : 1;
}

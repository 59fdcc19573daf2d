// A kernel without a body, as rocPRIM makes them for other chips: a symbol of size zero behind the code object's last instruction.
#include "hip_check.hpp"

template <bool k_for_this_chip>
__global__ void trampoline(int* out) {
  if constexpr (k_for_this_chip) *out = 42;
  else __builtin_unreachable();
}

int main(int argc, char**) {
  const DeviceArray<int> out(1);
  trampoline<true><<<1, 1>>>(out.get());
  if (argc > 1) trampoline<false><<<1, 1>>>(out.get());  // never: there is no argument
  HIP_DONE();
  Tally tally("empty_kernel");
  tally.equal("what the other kernel wrote", out.read(), std::vector<int>{42});
  return tally.finish();
}

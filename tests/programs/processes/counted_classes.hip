// counted_classes: two kernels, one of which has known numbers of instructions of each class more than the other.
#include "hip_check.hpp"

namespace {

template <bool t_more>
__global__ void count_me(int* where) {
  if constexpr (t_more) {
    asm volatile(
        ".rept 3\n s_mov_b32 s40, 0\n .endr\n"
        ".rept 4\n s_memrealtime s[40:41]\n .endr\n"
        ".rept 5\n v_mov_b32 v40, 0\n .endr\n"
        ".rept 6\n v_mfma_f32_4x4x1f32 v[44:47], v40, v40, 0\n .endr\n"
        ".rept 7\n ds_write_b32 v40, v40\n .endr\n"
        ".rept 8\n global_load_dword v41, %0, off\n .endr\n"
        ".rept 9\n global_store_dword %0, v40, off\n .endr\n"
        ".rept 10\n global_atomic_add %0, v40, off\n .endr\n"
        ".rept 11\n s_branch 0\n .endr\n"
        ".rept 12\n s_waitcnt 0\n .endr\n"
        :: "v"(where) : "s40", "s41", "v40", "v41", "v44", "v45", "v46", "v47", "memory");
  } else {
    asm volatile("" :: "v"(where) : "memory");
  }
}

}  // namespace

int main() {
  DeviceArray<int> memory(64);
  count_me<false><<<1, 64, 256>>>(memory.get());
  count_me<true><<<1, 64, 256>>>(memory.get());
  HIP_DONE();
}

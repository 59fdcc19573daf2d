// The list of the program's memory, by what its calls came to. Driver and CUPTI are stubs (stub_cuda.hpp).
#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

template <typename Parameters>
void run(CUpti_CallbackId id, const Parameters& parameters, CUresult status) {
  Call call(id, &parameters);
  call.enter();
  call.leave(status);
}

std::size_t count() { return tool()->allocations.reachable(0).size(); }

void allocate(CUdeviceptr address) {
  cuMemAlloc_v2_params made{&address, 0x1000};
  run(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, made, CUDA_SUCCESS);
}

void memory_is_forgotten_when_the_call_that_frees_it_succeeds() {
  void* const pinned = handle<void*>(0x700000);
  CUdeviceptr device = 0x200000;
  for (const CUresult status : {CUDA_ERROR_INVALID_CONTEXT, CUDA_SUCCESS}) {
    const std::size_t left = status == CUDA_SUCCESS ? 0 : 1;
    allocate(device);
    run(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, cuMemFree_v2_params{device}, status);
    CHECK(count() == left);
    allocate(device);
    run(CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync, cuMemFreeAsync_params{device, nullptr}, status);
    CHECK(count() == left);
    run(CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync, cuMemFreeAsync_params{device, nullptr}, CUDA_SUCCESS);
    run(CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2, cuMemHostRegister_v2_params{pinned, 0x1000, 0}, CUDA_SUCCESS);
    run(CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister, cuMemHostUnregister_params{pinned}, status);
    CHECK(count() == left);
    run(CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister, cuMemHostUnregister_params{pinned}, CUDA_SUCCESS);
    CHECK(count() == 0);
  }
}

// Another thread is given the address before the call that frees it has returned.
void an_address_that_is_given_out_again_at_once_is_kept() {
  allocate(0x200000);
  const cuMemFree_v2_params parameters{0x200000};
  Call free(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, &parameters);
  free.enter();
  std::thread([] { allocate(0x200000); }).join();
  free.leave();
  CHECK(count() == 1);
}

}  // namespace

int main() {
  start_library({});
  memory_is_forgotten_when_the_call_that_frees_it_succeeds();
  an_address_that_is_given_out_again_at_once_is_kept();
  return kerncap::test::exit_code();
}

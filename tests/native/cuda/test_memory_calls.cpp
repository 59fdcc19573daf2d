// The list of the program's memory, by what its calls came to. Driver and CUPTI are stubs (stub_cuda.hpp).
#include "cuda/memory_calls.hpp"
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

void memory_of_a_managed_pool_is_managed() {
  driver_stub().cuPointerGetAttribute = [](void* value, CUpointer_attribute attribute, CUdeviceptr) {
    *static_cast<unsigned*>(value) = attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED ? 1 : 0;
    return CUDA_SUCCESS;
  };
  CUdeviceptr address = 0x400000;
  run(CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_params{&address, 0x1000, nullptr, nullptr}, CUDA_SUCCESS);
  const auto all = tool()->allocations.reachable(0);
  CHECK(all.size() == 1 && all[0].kind == kerncap::capture::MemoryKind::managed && all[0].device == kerncap::capture::k_no_device);
  run(CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync, cuMemFreeAsync_params{address, nullptr}, CUDA_SUCCESS);
  CHECK(count() == 0);
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

// A capture's copies leave the device for what is about to be allocated.
void arrays_ask_for_room_as_well() {
  const auto room = [](CUpti_CallbackId call, const auto& parameters) {
    CUpti_CallbackData data{};
    data.functionParams = &parameters;
    return allocated_bytes(call, data);
  };
  CUarray array = nullptr;
  CUmipmappedArray levels = nullptr;
  const CUDA_ARRAY_DESCRIPTOR flat{100, 0, CU_AD_FORMAT_FLOAT, 2};
  const CUDA_ARRAY3D_DESCRIPTOR deep{100, 50, 20, CU_AD_FORMAT_FLOAT, 1, 0};
  CHECK(room(CUPTI_DRIVER_TRACE_CBID_cuArrayCreate_v2, cuArrayCreate_v2_params{&array, &flat}) == 100 * 2 * 4);
  CHECK(room(CUPTI_DRIVER_TRACE_CBID_cuArray3DCreate_v2, cuArray3DCreate_v2_params{&array, &deep}) == 100 * 50 * 20 * 4);
  CHECK(room(CUPTI_DRIVER_TRACE_CBID_cuMipmappedArrayCreate, cuMipmappedArrayCreate_params{&levels, &deep, 5}) >= 100 * 50 * 20 * 4);
  CHECK(room(CUPTI_DRIVER_TRACE_CBID_cuArrayCreate_v2, cuArrayCreate_v2_params{&array, nullptr}) == 0);
}

}  // namespace

int main() {
  start_library({});
  memory_is_forgotten_when_the_call_that_frees_it_succeeds();
  arrays_ask_for_room_as_well();
  memory_of_a_managed_pool_is_managed();
  an_address_that_is_given_out_again_at_once_is_kept();
  return kerncap::test::exit_code();
}

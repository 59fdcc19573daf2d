// One CUkernel of a library, launched in two contexts, each of which has a variable of the library's of its own: what it is at first
// is added, and grows by one with each launch. Dispatches 0 to 2 and 5 are in the first context.
//
//   library_kernel [asked|streams]   asked: the program knows the variables' addresses, and writes there. streams: the first context is
//                                    always current, and the second is that of the stream
#include <string>

#include "driver_calls.cuh"

constexpr char k_library[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 added = 5;
.visible .entry target(.param .u64 data) {
  .reg .u64 %a<4>;
  .reg .u32 %r<4>;
  .reg .pred %is_other;
  ld.param.u64 %a1, [data];
  cvta.to.global.u64 %a1, %a1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a2, %r1, 4;
  add.u64 %a2, %a2, %a1;
  ld.global.u32 %r2, [added];
  ld.global.u32 %r3, [%a2];
  mad.lo.u32 %r3, %r3, 3, %r2;
  st.global.u32 [%a2], %r3;
  bar.sync 0;
  setp.ne.u32 %is_other, %r1, 0;
  @%is_other bra end;
  add.u32 %r2, %r2, 1;
  st.global.u32 [added], %r2;
end:
  ret;
}
)";

int main(int argc, char** argv) {
  const bool asks = argc > 1 && std::string(argv[1]) == "asked";
  const bool by_streams = argc > 1 && std::string(argv[1]) == "streams";
  CHECK(cudaFree(nullptr));
  CUcontext contexts[2];
  DRIVER(cuCtxGetCurrent, &contexts[0]);
  CUctxCreateParams parameters{};
  DRIVER(cuCtxCreate, &contexts[1], &parameters, 0u, CUdevice{0});
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  DRIVER(cuLibraryLoadData, &library, static_cast<const void*>(k_library), nullptr, nullptr, 0u, nullptr, nullptr, 0u);
  DRIVER(cuLibraryGetKernel, &kernel, library, "target");
  CUdeviceptr data[2];
  CUstream streams[2] = {};
  unsigned expected[2];
  unsigned added[2];
  for (int i = 0; i < 2; ++i) {
    DRIVER(cuCtxSetCurrent, contexts[i]);
    expected[i] = 1 + i;
    added[i] = 5;
    DRIVER(cuMemAlloc, &data[i], 128 * sizeof(int));
    DRIVER(cuMemsetD32, data[i], expected[i], std::size_t{128});
    if (by_streams) DRIVER(cuStreamCreate, &streams[i], static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    CHECK(cudaDeviceSynchronize());
    if (!asks) continue;
    CUdeviceptr variable = 0;
    std::size_t bytes = 0;
    DRIVER(cuLibraryGetGlobal, &variable, &bytes, library, "added");
    added[i] = 100 * (1 + i);
    DRIVER(cuMemcpyHtoD, variable, static_cast<const void*>(&added[i]), bytes);
  }
  for (const int i : {0, 0, 0, 1, 1, 0}) {
    DRIVER(cuCtxSetCurrent, contexts[by_streams ? 0 : i]);
    void* arguments[] = {&data[i]};
    DRIVER(cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1u, 1u, 1u, 128u, 1u, 1u, 0u, streams[i], arguments, nullptr);
    if (by_streams) DRIVER(cuStreamSynchronize, streams[i]);
    expected[i] = expected[i] * 3 + added[i]++;
    unsigned last = 0;
    DRIVER(cuMemcpyDtoH, static_cast<void*>(&last), data[i] + 127 * sizeof(int), sizeof last);
    EXPECT(last == expected[i]);
  }
  std::printf("ok\n");
  return 0;
}

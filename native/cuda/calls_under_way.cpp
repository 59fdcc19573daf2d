// Ordinary memory is copied piece by piece: between two pieces the streams are at rest, though the call is not over. And a thread may
// lose its processor within any call, before it has submitted anything. No wait is long enough for such a thread. So each call that
// could change what is captured is counted, from its entry, where it looks for the window, to its end.
//
// Not counted, as they change none of it: what asks; what waits for the device; what makes memory, streams or code, which no kernel
// is given before the call has returned; what orders streams (events, waits for values); what moves managed memory, and leaves its
// contents; copies to arrays, as no kernel that reads arrays is captured; graphs that are made or changed, which nobody may do to one
// that is being launched; calls of CUDA 3.1 and before, whose addresses have 32 bits.
#include "cuda/calls_under_way.hpp"

#include <array>

namespace kerncap::cuda {
namespace {

#define KC_ID(name) CUPTI_DRIVER_TRACE_CBID_##name
#define KC_BOTH(name, suffix) KC_ID(name), KC_ID(name##suffix)

constexpr CUpti_CallbackId k_copies[] = {
    KC_BOTH(cuMemcpy, _ptds),
    KC_BOTH(cuMemcpyAsync, _ptsz),
    KC_BOTH(cuMemcpyHtoD_v2, _ptds),
    KC_BOTH(cuMemcpyHtoDAsync_v2, _ptsz),
    KC_BOTH(cuMemcpyDtoH_v2, _ptds),
    KC_BOTH(cuMemcpyDtoHAsync_v2, _ptsz),
    KC_BOTH(cuMemcpy2D_v2, _ptds),
    KC_BOTH(cuMemcpy2DUnaligned_v2, _ptds),
    KC_BOTH(cuMemcpy2DAsync_v2, _ptsz),
    KC_BOTH(cuMemcpy3D_v2, _ptds),
    KC_BOTH(cuMemcpy3DAsync_v2, _ptsz),
    KC_BOTH(cuMemcpyBatchAsync, _ptsz),
    KC_BOTH(cuMemcpyBatchAsync_v2, _ptsz),
    KC_BOTH(cuMemcpy3DBatchAsync, _ptsz),
    KC_BOTH(cuMemcpy3DBatchAsync_v2, _ptsz),
    KC_BOTH(cuMemcpyAtoH_v2, _ptds),
    KC_BOTH(cuMemcpyAtoHAsync_v2, _ptsz),
    // Without peer access they go through the host.
    KC_BOTH(cuMemcpyPeer, _ptds),
    KC_BOTH(cuMemcpyPeerAsync, _ptsz),
    KC_BOTH(cuMemcpy3DPeer, _ptds),
    KC_BOTH(cuMemcpy3DPeerAsync, _ptsz),
    // cuMemcpyWithAttributesAsync and cuMemcpy3DWithAttributesAsync, each with its _ptsz: CUPTI's headers name them from 13.5 on.
    837, 838, 839, 840,
};

constexpr CUpti_CallbackId k_submissions[] = {
    KC_BOTH(cuMemcpyDtoD_v2, _ptds),
    KC_BOTH(cuMemcpyDtoDAsync_v2, _ptsz),
    KC_BOTH(cuMemcpyAtoD_v2, _ptds),
    KC_BOTH(cuMemsetD8_v2, _ptds),
    KC_BOTH(cuMemsetD16_v2, _ptds),
    KC_BOTH(cuMemsetD32_v2, _ptds),
    KC_BOTH(cuMemsetD2D8_v2, _ptds),
    KC_BOTH(cuMemsetD2D16_v2, _ptds),
    KC_BOTH(cuMemsetD2D32_v2, _ptds),
    KC_BOTH(cuMemsetD8Async, _ptsz),
    KC_BOTH(cuMemsetD16Async, _ptsz),
    KC_BOTH(cuMemsetD32Async, _ptsz),
    KC_BOTH(cuMemsetD2D8Async, _ptsz),
    KC_BOTH(cuMemsetD2D16Async, _ptsz),
    KC_BOTH(cuMemsetD2D32Async, _ptsz),
    KC_BOTH(cuStreamWriteValue32, _ptsz),
    KC_BOTH(cuStreamWriteValue32_v2, _ptsz),
    KC_BOTH(cuStreamWriteValue64, _ptsz),
    KC_BOTH(cuStreamWriteValue64_v2, _ptsz),
    KC_BOTH(cuStreamBatchMemOp, _ptsz),
    KC_BOTH(cuStreamBatchMemOp_v2, _ptsz),
    KC_BOTH(cuMemBatchDecompressAsync, _ptsz),
    KC_BOTH(cuMemDiscardBatchAsync, _ptsz),
    KC_BOTH(cuMemDiscardAndPrefetchBatchAsync, _ptsz),
    KC_BOTH(cuLaunchHostFunc, _ptsz),
    // cuLaunchHostFunc_v2 with its _ptsz: CUDA 13.0's headers do not name them.
    831, 832,
    // What waits for it may write to memory that is shared.
    KC_BOTH(cuSignalExternalSemaphoresAsync, _ptsz),
    KC_BOTH(cuStreamAddCallback, _ptsz),
    KC_ID(cuLaunchCooperativeKernelMultiDevice),
};

constexpr CUpti_CallbackId k_launches[] = {
    KC_BOTH(cuLaunchKernel, _ptsz),
    KC_BOTH(cuLaunchKernelEx, _ptsz),
    KC_BOTH(cuLaunchCooperativeKernel, _ptsz),
    KC_ID(cuLaunch),
    KC_ID(cuLaunchGrid),
    KC_ID(cuLaunchGridAsync),
};

constexpr CUpti_CallbackId k_graph_launches[] = {KC_BOTH(cuGraphLaunch, _ptsz)};

constexpr CUpti_CallbackId k_stream_ends[] = {KC_ID(cuStreamDestroy), KC_ID(cuStreamDestroy_v2)};

constexpr CUpti_CallbackId k_context_ends[] = {
    KC_ID(cuCtxDestroy),
    KC_ID(cuCtxDestroy_v2),
    KC_ID(cuCtxDetach),
    KC_ID(cuGreenCtxDestroy),
    KC_ID(cuDevicePrimaryCtxReset),
    KC_ID(cuDevicePrimaryCtxReset_v2),
    KC_ID(cuDevicePrimaryCtxRelease),
    KC_ID(cuDevicePrimaryCtxRelease_v2),
};

constexpr CUpti_CallbackId k_code_ends[] = {KC_ID(cuModuleUnload), KC_ID(cuLibraryUnload)};

constexpr CUpti_CallbackId k_memory_ends[] = {
    KC_ID(cuMemFree_v2),       KC_BOTH(cuMemFreeAsync, _ptsz), KC_ID(cuMemFreeHost), KC_ID(cuMemHostUnregister),
    KC_ID(cuIpcCloseMemHandle), KC_ID(cuMemUnmap),
};

constexpr CUpti_CallbackId k_rights[] = {
    KC_ID(cuMemSetAccess), KC_ID(cuMemPoolSetAccess), KC_ID(cuCtxDisablePeerAccess),
    KC_ID(cuMulticastBindMem), KC_ID(cuMulticastBindAddr), KC_ID(cuMulticastUnbind),
    // cuMulticastBindMem_v2, cuMulticastBindAddr_v2, and cuLogicalEndpointBindAddr, -BindMem and -Unbind: CUDA 13.0's headers do not name them.
    820, 821, 853, 854, 855,
};

constexpr CUpti_CallbackId k_recordings[] = {
    KC_BOTH(cuStreamBeginCapture, _ptsz),
    KC_BOTH(cuStreamBeginCapture_v2, _ptsz),
    KC_BOTH(cuStreamBeginCaptureToGraph, _ptsz),
    // cuStreamBeginCaptureToCig and cuStreamBeginRecaptureToGraph, each with its _ptsz: not all of them have a name in CUDA 13.0's headers.
    783, 814, 846, 847,
};

constexpr std::size_t k_known = 1024;   // more than CUPTI 13.5 has
static_assert(CUPTI_DRIVER_TRACE_CBID_SIZE <= k_known);

constexpr std::array<UnderWay, k_known> k_by_call = [] {
  std::array<UnderWay, k_known> by_call{};
  for (const CUpti_CallbackId call : k_copies) by_call[call] = UnderWay::copy;
  for (const CUpti_CallbackId call : k_submissions) by_call[call] = UnderWay::submission;
  for (const CUpti_CallbackId call : k_launches) by_call[call] = UnderWay::launch;
  for (const CUpti_CallbackId call : k_graph_launches) by_call[call] = UnderWay::graph_launch;
  for (const CUpti_CallbackId call : k_stream_ends) by_call[call] = UnderWay::stream_end;
  for (const CUpti_CallbackId call : k_context_ends) by_call[call] = UnderWay::context_end;
  for (const CUpti_CallbackId call : k_code_ends) by_call[call] = UnderWay::code_end;
  for (const CUpti_CallbackId call : k_memory_ends) by_call[call] = UnderWay::memory_end;
  for (const CUpti_CallbackId call : k_rights) by_call[call] = UnderWay::rights;
  for (const CUpti_CallbackId call : k_recordings) by_call[call] = UnderWay::recording;
  return by_call;
}();

}  // namespace

UnderWay under_way(CUpti_CallbackId call) noexcept { return call < k_known ? k_by_call[call] : UnderWay::nothing; }

std::span<const CUpti_CallbackId> calls_of(UnderWay what) noexcept {
  switch (what) {
    case UnderWay::nothing: return {};
    case UnderWay::copy: return k_copies;
    case UnderWay::submission: return k_submissions;
    case UnderWay::launch: return k_launches;
    case UnderWay::graph_launch: return k_graph_launches;
    case UnderWay::stream_end: return k_stream_ends;
    case UnderWay::context_end: return k_context_ends;
    case UnderWay::code_end: return k_code_ends;
    case UnderWay::memory_end: return k_memory_ends;
    case UnderWay::rights: return k_rights;
    case UnderWay::recording: return k_recordings;
  }
  return {};
}

}  // namespace kerncap::cuda

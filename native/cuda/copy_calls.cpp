// Ordinary memory is copied piece by piece: between two pieces the streams are at rest, though the call is not over.
#include "cuda/copy_calls.hpp"

#include <algorithm>

namespace kerncap::cuda {
namespace {

#define KC_BOTH(name, suffix) CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_DRIVER_TRACE_CBID_##name##suffix

constexpr CUpti_CallbackId k_calls[] = {
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
};

}  // namespace

std::span<const CUpti_CallbackId> copy_calls() noexcept { return k_calls; }

bool is_copy(CUpti_CallbackId call) noexcept { return std::find(std::begin(k_calls), std::end(k_calls), call) != std::end(k_calls); }

}  // namespace kerncap::cuda

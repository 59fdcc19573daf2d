// The only place that includes NVIDIA's headers. Nothing of theirs is linked: see api.hpp.
#pragma once

#include <cuda.h>
// Of the calls of CUDA 2, whose parameters the last header below still describes.
using CUdeviceptr_v1 = unsigned int;
struct CUDA_MEMCPY2D_v1;
struct CUDA_MEMCPY3D_v1;
struct CUDA_ARRAY_DESCRIPTOR_v1;
struct CUDA_ARRAY3D_DESCRIPTOR_v1;
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_version.h>
// The parameters of each driver call, as a callback sees them.
#include <generated_cuda_meta.h>

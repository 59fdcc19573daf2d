// Kernels in HIP's graphs: one that was refused reaches HIP without a function, as in a launch. HIP would end the program otherwise:
// it looks a kernel up when a node gets it. What a preload may not do: see libc_hooks.cpp.
#include "softgpu/preload/image_hooks.hpp"
#include "softgpu/preload/refused_kernels.hpp"

#define KERNCAP_EXPORT __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

constexpr int k_kernel_node = 0;  // hipGraphNodeTypeKernel

[[nodiscard]] bool is_refused(const void* kernel) noexcept { return RefusedKernels::instance().replace(kernel) != kernel; }

// What `call`, HIP's own function, makes of a node.
template <typename Call>
[[nodiscard]] int with(const KernelNode* what, const Call& call) noexcept {
  if (what == nullptr || !is_refused(what->kernel)) return call(what);
  KernelNode changed = *what;
  changed.kernel = nullptr;
  return call(&changed);
}

template <typename Call>
[[nodiscard]] int with(GraphNode* what, const Call& call) noexcept {
  if (what == nullptr || what->type != k_kernel_node || !is_refused(what->kernel.kernel)) return call(what);
  GraphNode changed = *what;
  changed.kernel.kernel = nullptr;
  return call(&changed);
}

}  // namespace

KERNCAP_EXPORT int hipGraphAddKernelNode(void** node, void* graph, void* const* before, std::size_t count, const KernelNode* what) noexcept {
  const auto real = hip_function<hipGraphAddKernelNode>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return with(what, [&](const KernelNode* its) { return real(node, graph, before, count, its); });
}

KERNCAP_EXPORT int hipGraphKernelNodeSetParams(void* node, const KernelNode* what) noexcept {
  const auto real = hip_function<hipGraphKernelNodeSetParams>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return with(what, [&](const KernelNode* its) { return real(node, its); });
}

KERNCAP_EXPORT int hipGraphExecKernelNodeSetParams(void* executable, void* node, const KernelNode* what) noexcept {
  const auto real = hip_function<hipGraphExecKernelNodeSetParams>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return with(what, [&](const KernelNode* its) { return real(executable, node, its); });
}

KERNCAP_EXPORT int hipGraphAddNode(void** node, void* graph, void* const* before, std::size_t count, GraphNode* what) noexcept {
  const auto real = hip_function<hipGraphAddNode>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return with(what, [&](GraphNode* its) { return real(node, graph, before, count, its); });
}

KERNCAP_EXPORT int hipGraphNodeSetParams(void* node, GraphNode* what) noexcept {
  const auto real = hip_function<hipGraphNodeSetParams>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return with(what, [&](GraphNode* its) { return real(node, its); });
}

KERNCAP_EXPORT int hipGraphExecNodeSetParams(void* executable, void* node, GraphNode* what) noexcept {
  const auto real = hip_function<hipGraphExecNodeSetParams>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return with(what, [&](GraphNode* its) { return real(executable, node, its); });
}

// What stands in front of the ways in for code, of HIP and of ROCr: see hip_hooks.cpp, registration_hooks.cpp, graph_hooks.cpp and
// hsa_hooks.cpp. The dynamic linker finds each under its own name, dlsym through the list in dlsym_hook.cpp. Declared here without
// headers of ROCm, so that one library serves all its versions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "softgpu/isa/target.hpp"
#include "softgpu/preload/library_function.hpp"

namespace kerncap::softgpu {

inline constexpr int k_hip_not_initialized = 3;  // hipError_t
struct GridSize {                                // dim3
  std::uint32_t x, y, z;
};
struct KernelNode {  // hipKernelNodeParams
  GridSize block;
  void** extra;
  const void* kernel;
  GridSize grid;
  void** arguments;
  unsigned lds_bytes;
};
struct GraphNode {  // hipGraphNodeParams: a union by `type`
  int type;
  int reserved[3];
  union {
    long long room[29];
    KernelNode kernel;
  };
  long long reserved_end;
};
static_assert(sizeof(GraphNode) == 256);

}  // namespace kerncap::softgpu

extern "C" {
int hsa_code_object_reader_create_from_memory(const void* code_object, std::size_t size_bytes, void* reader) noexcept;
int hsa_code_object_reader_create_from_file(int file, void* reader) noexcept;
int hipModuleLoad(void** module, const char* path) noexcept;
int hipModuleLoadData(void** module, const void* image) noexcept;
int hipModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) noexcept;
int hipModuleLoadFatBinary(void** module, const void* image) noexcept;
int hipLibraryLoadData(void** library, const void* image, int* jit_options, void** jit_values, unsigned jit_count, int* options,
                       void** values, unsigned count) noexcept;
int hipLibraryLoadFromFile(void** library, const char* path, int* jit_options, void** jit_values, unsigned jit_count, int* options,
                           void** values, unsigned count) noexcept;
void** __hipRegisterFatBinary(const void* wrapper) noexcept;
void __hipUnregisterFatBinary(void** module) noexcept;
void __hipRegisterFunction(void** module, const void* host, char* function, const char* name, unsigned threads, void* thread,
                           void* block, void* block_size, void* grid_size, int* warp_size) noexcept;
void __hipRegisterVar(void** module, void* host, char* host_name, char* name, int is_external, std::size_t size_bytes,
                      int is_constant, int is_global) noexcept;
void __hipRegisterManagedVar(void* module, void** pointer, void* initial, const char* name, std::size_t size_bytes,
                             unsigned alignment) noexcept;
void __hipRegisterSurface(void** module, void* host, char* host_name, char* name, int type, int is_external) noexcept;
void __hipRegisterTexture(void** module, void* host, char* host_name, char* name, int type, int is_normalized,
                          int is_external) noexcept;
int hipLaunchKernel(const void* kernel, kerncap::softgpu::GridSize grid, kerncap::softgpu::GridSize block, void** arguments,
                    std::size_t lds_bytes, void* stream) noexcept;
int hipLaunchKernel_spt(const void* kernel, kerncap::softgpu::GridSize grid, kerncap::softgpu::GridSize block, void** arguments,
                        std::size_t lds_bytes, void* stream) noexcept;
int hipExtLaunchKernel(const void* kernel, kerncap::softgpu::GridSize grid, kerncap::softgpu::GridSize block, void** arguments,
                       std::size_t lds_bytes, void* stream, void* start, void* stop, int flags) noexcept;
int hipLaunchKernelExC(const void* launch, const void* kernel, void** arguments) noexcept;
int hipGraphAddKernelNode(void** node, void* graph, void* const* before, std::size_t count,
                          const kerncap::softgpu::KernelNode* what) noexcept;
int hipGraphKernelNodeSetParams(void* node, const kerncap::softgpu::KernelNode* what) noexcept;
int hipGraphExecKernelNodeSetParams(void* executable, void* node, const kerncap::softgpu::KernelNode* what) noexcept;
int hipGraphAddNode(void** node, void* graph, void* const* before, std::size_t count, kerncap::softgpu::GraphNode* what) noexcept;
int hipGraphNodeSetParams(void* node, kerncap::softgpu::GraphNode* what) noexcept;
int hipGraphExecNodeSetParams(void* executable, void* node, kerncap::softgpu::GraphNode* what) noexcept;
}

namespace kerncap::softgpu {

// Nothing where the program will see no GPU. The driver is not asked: what is registered before main() comes before its time.
[[nodiscard]] std::optional<Target> target_of_process();

// The function of HIP's that one of ours, `Function`, stands in front of. Looked for until HIP is there, then never again: a launch
// costs a load.
template <auto Function>
[[nodiscard]] decltype(Function) hip_function(const char* name) noexcept {
  static constinit std::atomic<decltype(Function)> found{nullptr};
  if (const auto known = found.load(std::memory_order_relaxed)) return known;
  const auto now = library_function<decltype(Function)>("libamdhip64", name);
  found.store(now, std::memory_order_relaxed);
  return now;
}

}  // namespace kerncap::softgpu

// From the parameters of the nodes, the kernel's own among them.
#include "capture/regions.hpp"
#include "cuda/graph_effects.hpp"

#include <algorithm>
#include <mutex>

#include "cuda/addresses.hpp"
#include "cuda/api.hpp"
#include "cuda/cubin.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using capture::MemoryKind;
using core::Error;
using core::ErrorCode;
using core::Result;

// Pinned, or a mapping or a pool of the host's.
bool is_of_host(const Allocation& region) noexcept {
  return region.kind == MemoryKind::host_pinned || region.kind == MemoryKind::host_registered || region.device == capture::k_no_device;
}

bool threads_may_touch_managed(std::uint32_t device) noexcept {
  return device_attribute(static_cast<CUdevice>(device), CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) != 0;
}

PutBack way_of(const Allocation& region, std::uint32_t device, bool is_given, bool is_concurrent) noexcept {
  if ((region.flags & capture::k_region_read_only) != 0) return PutBack::nothing;
  if (region.is_shared() || region.lies_elsewhere(device)) return PutBack::others;
  if (region.kind == MemoryKind::managed) return is_concurrent ? PutBack::words : PutBack::whole;
  if (is_of_host(region)) return is_given ? PutBack::words : PutBack::warning;
  return PutBack::whole;
}

struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;

  // 0: an array's, which has no address.
  [[nodiscard]] std::uint64_t address() const noexcept {
    if (type == CU_MEMORYTYPE_ARRAY) return 0;
    return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
  }
};

}  // namespace

Result<std::vector<PutBack>> how_to_put_back(const WatchedGraph& graph, std::size_t node,
                                             const std::vector<Allocation>& regions, std::uint32_t device) {
  std::vector<bool> is_given(regions.size());
  const auto mark = [&](std::uint64_t address) {
    // One behind the last element is how many ends are given.
    for (const std::uint64_t each : {address, address - 1}) {
      if (const Allocation* found = region_at(regions, each)) is_given[static_cast<std::size_t>(found - regions.data())] = true;
    }
  };
  bool is_of_another_gpu = false;
  bool is_ordinary = false;
  unsigned effects = 0;                  // KernelEffect; of the kernel itself the collector knows all but what it prints
  const auto look = [&](std::uint64_t address) {
    is_of_another_gpu = is_of_another_gpu || (!region_at(regions, address) && tool()->allocations.peer_at(address, device));
  };
  bool reads_elsewhere = false;
  bool writes_elsewhere = false;
  std::vector<bool> runs = ancestors_of(graph.nodes, node);
  runs[node] = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!runs[i]) continue;
    const CUgraphNode each = graph.nodes[i].node;
    if (graph.nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL) {
      const Result<LaunchCall> launch = read_kernel_node(each);
      if (!launch) return launch.error();
      is_of_another_gpu = is_of_another_gpu || tool()->streams.device_of(launch.value().context).value_or(device) != device;
      CUfunction function = launch.value().function;
      CUmodule home = nullptr;
      // A node may name a CUkernel: that has a function in each context.
      if (driver().cuFuncGetModule(&home, function) != CUDA_SUCCESS && driver().cuKernelGetFunction != nullptr) {
        driver().cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(launch.value().function));
      }
      const char* name = nullptr;
      if (driver().cuFuncGetName != nullptr) driver().cuFuncGetName(&name, function);
      if (name != nullptr) effects |= tool()->modules.effects_of(name) & (i == node ? k_prints : ~0U);
      const Result<std::vector<std::byte>> parameters = pack_parameters(function, launch.value());
      if (!parameters) {   // whatever it was given
        is_given.assign(regions.size(), true);
        continue;
      }
      is_ordinary = is_ordinary || is_given_ordinary_memory(function, parameters.value(), device);
      for (const std::uint64_t word : words_of(parameters.value())) {
        mark(word);
        look(word);
      }
    } else if (graph.nodes[i].type == CU_GRAPH_NODE_TYPE_MEMSET) {
      CUDA_MEMSET_NODE_PARAMS set{};
      Result<void> asked = checked("reading a graph", driver().cuGraphMemsetNodeGetParams(each, &set));
      if (!asked) return asked.error();
      mark(set.dst);
      look(set.dst);
    } else if (graph.nodes[i].type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      CUDA_MEMCPY3D copy{};
      Result<void> asked = checked("reading a graph", driver().cuGraphMemcpyNodeGetParams(each, &copy));
      if (!asked) return asked.error();
      const End from{copy.srcMemoryType, copy.srcHost, copy.srcDevice};
      const End to{copy.dstMemoryType, copy.dstHost, copy.dstDevice};
      reads_elsewhere = reads_elsewhere || !region_at(regions, from.address());
      writes_elsewhere = writes_elsewhere || !region_at(regions, to.address());
      mark(to.address());
      look(from.address());
      look(to.address());
    }
  }
  bool is_shared = false;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    is_of_another_gpu = is_of_another_gpu || (is_given[i] && regions[i].lies_elsewhere(device));
    is_shared = is_shared || (is_given[i] && regions[i].is_shared());
  }
  if (is_of_another_gpu) {
    return Error{ErrorCode::unsupported, "it is in a CUDA graph that works on another GPU, too, or is launched while another than the "
                                         "kernel's is current: what would be done twice there could not be undone"};
  }
  if (is_shared) {
    return Error{ErrorCode::unsupported, "it is in a CUDA graph that works on memory which other processes share (IPC): what they write "
                                         "there meanwhile would be undone with what is done twice"};
  }
  if ((effects & (k_launches | k_uses_heap)) != 0) {
    return Error{ErrorCode::unsupported, "it is in a CUDA graph behind a kernel that launches others on the device or uses the device's own "
                                         "heap (malloc, free), which would be done twice"};
  }
  if ((effects & k_prints) != 0) {
    static std::once_flag s_said;
    std::call_once(s_said, [] {
      warn("kernels of a CUDA graph call printf, and run once more while one of it is captured: what they print then comes twice");
    });
  }
  if (is_ordinary) {
    return Error{ErrorCode::unsupported, "it is in a CUDA graph that is given ordinary memory of the host (HMM, ATS), which no capture "
                                         "holds: what would be done twice there could not be undone"};
  }
  // Either alone does the same a second time.
  if (reads_elsewhere && writes_elsewhere) {
    return Error{ErrorCode::unsupported, "it is in a CUDA graph behind copies from and to memory that no capture holds, ordinary "
                                         "memory of the host or arrays, which would be done twice"};
  }
  const bool is_concurrent = threads_may_touch_managed(device);
  std::vector<PutBack> how;
  for (std::size_t i = 0; i < regions.size(); ++i) how.push_back(way_of(regions[i], device, is_given[i], is_concurrent));
  return how;
}

}  // namespace kerncap::cuda

// Goes through what the program's calls, the driver and the kernel's arguments tell of memory.
#include "cuda/reach.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "capture/regions.hpp"
#include "cuda/addresses.hpp"
#include "cuda/api.hpp"
#include "cuda/managed.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

namespace messages = capture::messages;
using core::Error;
using core::ErrorCode;
using core::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds k_others_limit{1000};

}  // namespace

Result<void> Reach::list(Job& job, bool has_stuck) noexcept {
  if (Result<void> listed = list_regions(job); !listed) return listed;
  if (Result<void> rested = wait_for_other_gpus(job, has_stuck); !rested) return rested;
  return refuse_unreachable(job);
}

Result<void> Reach::list_regions(Job& job) noexcept {
  tool()->allocations.drop_what_went(is_known_to_the_driver);
  job.regions = tool()->allocations.reachable(job.device);
  for (Allocation& region : job.regions) {
    if (region.kind == capture::MemoryKind::managed) region.flags |= managed_flags(region, job.device);
  }
  add_variables(job);
  if (tool()->modules.uses_heap()) {
    warn("kernels of the program take memory from the device's own heap (malloc in a kernel), which no capture holds: a "
         "replay that follows a pointer there faults");
  }
  return add_peers(job);
}

// Of other GPUs' memory what the arguments lead to: all of it would be as much again for each GPU, and most kernels of
// programs with several GPUs see none of it.
Result<void> Reach::add_peers(Job& job) noexcept {
  std::map<std::uint32_t, std::uint64_t> left_out = tool()->allocations.peer_bytes(job.device);
  std::vector<Allocation> all = job.regions;
  std::set<std::uint64_t> bases;
  for (const std::uint64_t word : words_of(job.parameters)) {
    const std::optional<Allocation> peer = tool()->allocations.peer_at(word, job.device);
    if (!peer || !bases.insert(peer->base).second) continue;
    all.push_back(*peer);
    all.back().access |= std::uint64_t{1} << job.device;
    left_out[peer->device] -= std::min(left_out[peer->device], peer->bytes);
  }
  if (!bases.empty()) job.regions = disjoint(all);
  for (const auto& [device, bytes] : left_out) {
    if (bytes == 0) continue;
    warn("the kernel can reach " + std::to_string(bytes) + " bytes of GPU " + std::to_string(device) +
         "'s memory that no argument leads to: they are not in the capture, and a replay that follows a pointer there faults");
  }
  return {};
}

// What another GPU does is on no stream of this one's, and may write what both reach.
Result<void> Reach::wait_for_other_gpus(const Job& job, bool has_stuck) noexcept {
  if (job.from_graph || !tool()->streams.has_others(job.device)) return {};   // a graph's capture waits for all of them
  std::set<std::uint32_t> given;
  for (const std::uint64_t word : words_of(job.parameters)) {
    const Allocation* region = region_at(job.regions, word);
    if (region != nullptr && region->lies_elsewhere(job.device)) given.insert(region->device);
  }
  if (has_stuck && !given.empty()) {
    return Error{ErrorCode::timeout, "another thread's launch did not end in time, and the kernel is given memory of another GPU"};
  }
  for (const std::uint32_t device : given) {
    if (Result<void> drained = tool()->streams.drain(device, wait_deadline()); !drained) return drained;
  }
  // Not for long, as it may wait for the very kernel, and at length once only. Nor beside a launch that is stuck there, which may hold a
  // lock of the driver's.
  const auto limit = m_others_are_busy ? k_others_limit / 50 : k_others_limit;
  if (!has_stuck && tool()->streams.others_come_to_rest(job.device, std::min(wait_deadline(), Clock::now() + limit))) return {};
  if (!m_others_are_busy) {
    warn("another GPU works beside captures, or may (a stream of it was given up in the middle of its work): what it writes meanwhile, in "
         "memory that the kernel's reaches, counts as the kernel's");
  }
  m_others_are_busy = true;
  return {};
}

// Variables of loaded modules: memory that no allocation call told us of.
void Reach::add_variables(Job& job) noexcept {
  std::vector<Allocation> all = job.regions;
  for (const Modules::Variables& module : tool()->modules.variables(job.device)) {
    // The collector keeps what it was told of a module; the kernel's own are listed with the capture.
    const bool announce = module.module == job.kernel.module && m_announced.insert(module.module).second;
    for (const ModuleVariable& variable : module.variables) {
      CUdeviceptr address = 0;
      std::size_t bytes = 0;
      if (driver().cuModuleGetGlobal_v2(&address, &bytes, module.handle, variable.name.c_str()) != CUDA_SUCCESS) {
        continue;
      }
      Allocation region;
      region.base = address;
      region.bytes = bytes;
      region.kind = capture::MemoryKind::code_object;
      region.device = job.device;
      region.access = std::uint64_t{1} << job.device;
      region.module = module.module;
      all.push_back(region);
      if (!announce) continue;
      tool()->channel->send(messages::Variables{
          .module = module.module,
          .variables = {{.address = address,
                         .size_bytes = bytes,
                         .flags = variable.is_const ? capture::k_variable_is_const : 0,
                         .name = variable.name}}});
    }
  }
  job.regions = disjoint(all);
}

// What an argument leads to and no copy holds: memory that only exists while a graph runs, of other interfaces, and so on.
Result<void> Reach::refuse_unreachable(const Job& job) noexcept {
  for (const std::uint64_t word : words_of(job.parameters)) {
    if (tool()->allocations.is_graph_memory(word)) {
      return Error{ErrorCode::unsupported, "an argument points to memory that a CUDA graph allocates while it runs"};
    }
    // One behind the last element is how many ends are given.
    if (region_at(job.regions, word) != nullptr || region_at(job.regions, word - 1) != nullptr) continue;
    if (is_known_to_the_driver(word)) {
      return Error{ErrorCode::unsupported, "an argument points to memory that was made by no call that we know, such as "
                                           "a buffer of a graphics interface: it cannot be captured"};
    }
  }
  if (!job.from_graph && !m_ordinary_is_said && is_given_ordinary_memory(job.kernel.function, job.parameters, job.device)) {
    m_ordinary_is_said = true;
    warn("the kernel is given an address of ordinary memory of the host, which this GPU reaches by itself (HMM, ATS): no capture holds "
         "that memory, and a replay that follows the address faults");
  }
  return {};
}

}  // namespace kerncap::cuda

// Kernels of ours beside the program's: compiled once, and again for each size of local memory.
#include "cuda/driver/scrub.hpp"

#include <algorithm>
#include <string>

#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr unsigned k_threads = 256;
constexpr unsigned k_local_threads = 512;
constexpr std::string_view k_local_size = "[65536]";   // in the text
// What a thread may have at most, and how much of it there is room for in all threads, if not for more.
constexpr std::uint64_t k_most_local_bytes = 512 * 1024 - 1024;
constexpr std::uint64_t k_local_bytes_with_room = 64 * 1024;
constexpr std::uint64_t k_local_step_bytes = 16;

}  // namespace

Result<CUmodule> Scrub::compile(std::uint64_t local_bytes) {
  std::string text = k_scrub_ptx;
  const std::size_t at = text.find(k_local_size);
  if (at == std::string::npos) return Error{ErrorCode::malformed, "our kernel has no local memory"};
  text.replace(at, k_local_size.size(), "[" + std::to_string(local_bytes) + "]");
  CUmodule module = nullptr;
  const CUresult status = driver().cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr);
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("compiling our kernel", status)};
  m_modules.push_back(module);
  return module;
}

Result<void> Scrub::give_back() {
  for (const CUmodule module : m_modules) {
    if (Result<void> done = checked("unloading our kernel", driver().cuModuleUnload(module)); !done) return done;
  }
  *this = Scrub();
  return {};
}

Result<void> Scrub::prepare(CUdevice device) {
  if (m_kernel != nullptr) return {};
  const Result<CUmodule> module = compile(k_local_step_bytes);
  if (!module) return module.error();
  CUfunction kernel = nullptr;
  Result<void> made = checked("our kernel", driver().cuModuleGetFunction(&kernel, module.value(), k_scrub_kernel));
  if (made) made = checked("our kernel", driver().cuModuleGetFunction(&m_behind, module.value(), k_behind_kernel));
  m_shared_bytes = static_cast<std::uint32_t>(device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  m_multiprocessors = static_cast<unsigned>(device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  if (made) {
    made = checked("asking for shared memory",
                   driver().cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                               static_cast<int>(m_shared_bytes)));
  }
  if (!made) return made;
  m_kernel = kernel;
  return {};
}

Result<Scrub::Local> Scrub::local(std::uint64_t bytes) {
  if (const auto known = m_locals.find(bytes); known != m_locals.end()) return known->second;
  const Result<CUmodule> module = compile(bytes);
  if (!module) return module.error();
  CUfunction kernel = nullptr;
  Result<void> made = checked("our kernel", driver().cuModuleGetFunction(&kernel, module.value(), k_scrub_local_kernel));
  int blocks = 0;                            // of one multiprocessor
  if (made) {
    made = checked("asking for blocks",
                   driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, k_local_threads, 0));
  }
  if (!made) return made.error();
  const Local local{kernel, m_multiprocessors * static_cast<unsigned>(std::max(blocks, 1))};
  m_locals.emplace(bytes, local);
  return local;
}

Result<bool> Scrub::run_local(std::uint64_t bytes, replay::ScrubValues values, CUstream stream) {
  const Result<Local> each = local(bytes);
  if (!each && bytes > k_local_bytes_with_room) return false;
  if (!each) return each.error();
  auto words = static_cast<std::uint32_t>(bytes / sizeof(std::uint32_t));
  void* parameters[] = {&words, &values.pattern, &values.mix, &values.seed};
  const CUresult status = driver().cuLaunchKernel(each.value().kernel, each.value().blocks, 1, 1, k_local_threads, 1, 1, 0, stream,
                                                  parameters, nullptr);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) return false;
  if (Result<void> done = checked("overwriting local memory", status); !done) return done.error();
  return true;
}

Result<void> Scrub::run(CUdevice device, std::uint64_t local_bytes, CUstream stream) {
  if (Result<void> ready = prepare(device); !ready) return ready;
  replay::ScrubValues values = m_turns.next();
  if (local_bytes != 0) {
    local_bytes = std::min((local_bytes + k_local_step_bytes - 1) / k_local_step_bytes * k_local_step_bytes, k_most_local_bytes);
    local_bytes = std::min(local_bytes, m_room_bytes);
    Result<bool> done = run_local(local_bytes, values, stream);
    if (done && !done.value() && local_bytes > k_local_bytes_with_room) {
      m_room_bytes = k_local_bytes_with_room;
      done = run_local(m_room_bytes, values, stream);
    }
    if (!done) return done.error();
    if (!done.value()) return Error{ErrorCode::device, "the device has no room to overwrite local memory"};
  }
  std::uint32_t words = m_shared_bytes / sizeof(std::uint32_t);
  void* parameters[] = {&words, &values.pattern, &values.mix, &values.seed};
  return checked("overwriting shared memory and registers",
                 driver().cuLaunchKernel(m_kernel, m_multiprocessors, 1, 1, k_threads, 1, 1, m_shared_bytes, stream, parameters,
                                         nullptr));
}

Result<void> Scrub::mark(CUstream stream) {
  return checked("marking the end of a kernel", driver().cuLaunchKernel(m_behind, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}

}  // namespace kerncap::cuda

// HIP's module API, by function pointers.
#include "hsa/driver/hip_launcher.hpp"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>

namespace kerncap::hsa {

using core::Error;
using core::ErrorCode;
using core::Result;

Error HipLauncher::error(const std::string& what, int code) const {
  const char* text = m_hip.hipGetErrorString(code);
  return {ErrorCode::device, what + ": " + (text != nullptr ? text : "unknown HIP error") + " (" + std::to_string(code) + ")"};
}

Result<std::unique_ptr<HipLauncher>> HipLauncher::start(std::uint32_t device) {
  void* library = nullptr;
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  }
  if (library == nullptr) {
    return Error{ErrorCode::device, std::string("launching through HIP needs its runtime, libamdhip64: ") + ::dlerror()};
  }
  std::unique_ptr<HipLauncher> launcher(new HipLauncher);
  Functions& hip = launcher->m_hip;
  std::string missing;
#define KERNCAP_HIP(function, ...)                                                            \
  hip.function = reinterpret_cast<std::add_pointer_t<__VA_ARGS__>>(::dlsym(library, #function)); \
  if (hip.function == nullptr) missing += " " #function;
#include "hsa/driver/hip_runtime.def"
#undef KERNCAP_HIP
  if (!missing.empty()) return Error{ErrorCode::device, "this HIP runtime is too old: it has no" + missing};
  int code = hip.hipInit(0);
  if (code == 0) code = hip.hipSetDevice(static_cast<int>(device));
  // The stream comes now, with the queue and memory behind it, so that loading a module allocates little else.
  if (code == 0) code = hip.hipStreamCreate(&launcher->m_stream);
  if (code == 0) code = hip.hipEventCreate(&launcher->m_start);
  if (code == 0) code = hip.hipEventCreate(&launcher->m_stop);
  if (code != 0) return launcher->error("HIP does not start", code);
  return launcher;
}

Result<HipLauncher::Module> HipLauncher::load(std::span<const std::byte> file, const std::string& symbol) {
  Module made;
  if (const int code = m_hip.hipModuleLoadData(&made.module, file.data()); code != 0) {
    Error failed = error("loading the code object through HIP", code);
    // hipErrorInvalidImage, hipErrorNoBinaryForGpu, hipErrorInvalidKernelFile, hipErrorSharedObjectInitFailed
    if (code == 200 || code == 209 || code == 218 || code == 303) failed.code = ErrorCode::invalid_argument;
    return failed;
  }
  constexpr int k_not_found = 500;      // hipErrorNotFound
  const int code = m_hip.hipModuleGetFunction(&made.function, made.module, symbol.c_str());
  if (code == 0) return made;
  unload(made);
  if (code == k_not_found) return Error{ErrorCode::not_found, "the code object has no kernel " + symbol};
  return error("looking for the kernel through HIP", code);
}

void HipLauncher::unload(const Module& module) noexcept {
  if (module.module != nullptr) m_hip.hipModuleUnload(module.module);
}

int HipLauncher::start_kernel(void* function, const replay::Launch& launch) {
  // HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END of hip_runtime_api.h.
  std::size_t bytes = launch.kernarg.size();
  void* extra[] = {reinterpret_cast<void*>(1), const_cast<std::byte*>(launch.kernarg.data()),
                   reinterpret_cast<void*>(2), &bytes, reinterpret_cast<void*>(3)};
  const auto items = [&](int axis) { return static_cast<std::uint32_t>(launch.grid[axis]); };
  return m_hip.hipExtModuleLaunchKernel(function, items(0), items(1), items(2), launch.block[0], launch.block[1],
                                        launch.block[2], launch.dynamic_lds_bytes, m_stream, nullptr, extra, m_start,
                                        m_stop, 0);
}

// This one counts blocks, takes pointers to arguments only, and has no events of its own: the time is that between two
// others, with HIP's preparation of the barrier in it.
int HipLauncher::start_cooperative_kernel(void* function, const replay::Launch& launch,
                                          const std::vector<std::uint64_t>& arguments) {
  std::vector<void*> parameters;
  for (const std::uint64_t offset : arguments) {
    parameters.push_back(const_cast<std::byte*>(&launch.kernarg[offset]));
  }
  const auto blocks = [&](int axis) { return static_cast<std::uint32_t>(launch.blocks(axis)); };
  int code = m_hip.hipEventRecord(m_start, m_stream);
  if (code == 0) {
    code = m_hip.hipModuleLaunchCooperativeKernel(function, blocks(0), blocks(1), blocks(2), launch.block[0],
                                                  launch.block[1], launch.block[2], launch.dynamic_lds_bytes, m_stream,
                                                  parameters.data());
  }
  return code == 0 ? m_hip.hipEventRecord(m_stop, m_stream) : code;
}

// Not hipStreamSynchronize: it waits for ever on a queue that a fault has stopped, as the driver takes the fault's event.
int HipLauncher::wait(const std::function<bool()>& faulted) {
  constexpr int k_not_ready = 600;      // hipErrorNotReady
  timespec pause{0, 10'000};
  int code = m_hip.hipStreamQuery(m_stream);
  while (code == k_not_ready && !faulted()) {
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(2 * pause.tv_nsec, 1'000'000L);
    code = m_hip.hipStreamQuery(m_stream);
  }
  return code;
}

Result<replay::Timing> HipLauncher::launch(const Module& module, const replay::Plan& plan, const replay::Launch& launch,
                                           const std::function<bool()>& faulted) {
  int code = plan.cooperative ? start_cooperative_kernel(module.function, launch, plan.arguments)
                              : start_kernel(module.function, launch);
  if (code == 0) code = wait(faulted);
  if (code != 0) return error("the launch through HIP", code);
  float milliseconds = 0;
  if (code = m_hip.hipEventElapsedTime(&milliseconds, m_start, m_stop); code != 0) {
    return error("asking HIP for the duration", code);
  }
  return replay::Timing{static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6)};
}

}  // namespace kerncap::hsa

// Code and launch of the CUDA driver; its memory is in memory.cpp.
#include "cuda/driver/cuda_driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda/cubin.hpp"
#include "cuda/driver/launch_limits.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::uint32_t k_shared_without_asking = 48 * 1024;
// The next kernel in a stream begins a microsecond behind a kernel, or when the host has launched it.
constexpr std::uint64_t k_longest_gap_ns = 10'000;

}  // namespace

struct CudaDriver::LoadedCode final : replay::Code {
  std::vector<std::byte> file;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  std::uint32_t shared_bytes = 0;        // without those that a launch adds
  std::uint32_t parameter_bytes = 0;

  [[nodiscard]] std::optional<std::uint64_t> variable(const std::string& name, std::uint64_t bytes) const override {
    CUdeviceptr address = 0;
    std::size_t size = 0;
    const CUresult status = driver().cuModuleGetGlobal_v2(&address, &size, module, name.c_str());
    if (status != CUDA_SUCCESS || size != bytes) return std::nullopt;
    return address;
  }
  // Those that the cubin names: of PTX, which the driver compiles, none is known.
  [[nodiscard]] std::vector<replay::AddressRange> own_data() const override {
    std::vector<replay::AddressRange> parts;
    for (const CubinVariable& each : read_cubin(file).variables) {
      const auto address = each.is_const ? std::nullopt : variable(std::string(each.name), each.bytes);
      if (address) parts.push_back({*address, each.bytes});
    }
    return parts;
  }
};

Result<void> CudaDriver::start_driver() {
  // Code that is loaded at its first launch would be loaded inside the first timing.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  // A replay has one stream. Where 13 processes make contexts at once, one of them waits 1.5 s for its eight queues,
  // and 0.5 s for one (H200).
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
  if (Result<void> loaded = load_driver(); !loaded) return loaded;
  return checked("the CUDA driver does not start", driver().cuInit(0));
}

Result<void> CudaDriver::enter_context() {
  if (m_start && m_start->device == m_device) return {};  // of an earlier replay
  Result<void> made = checked("making a context", driver().cuDevicePrimaryCtxRetain(&m_context, m_device));
  if (made) made = checked("entering the context", driver().cuCtxSetCurrent(m_context));
  return made;
}

void CudaDriver::start_early(std::uint32_t device, bool timed) {
  // What fails here is tried again by open(), which tells.
  if (!start_driver() || driver().cuDeviceGet(&m_device, static_cast<int>(device)) != CUDA_SUCCESS) return;
  if (timed) m_timer.start();
  (void)enter_context();
}

Result<void> CudaDriver::open(const replay::Plan& plan) {
  m_plan = &plan;
  if (Result<void> started = start_driver(); !started) return started;
  if (Result<void> fine = check_devices(plan); !fine) return fine;
  if (plan.timed) {
    // Loading CUPTI takes a good part of the time that a small replay does.
    m_timer.start();
    m_opened.runtime += m_timer.is_on() ? ", timed by CUPTI" : ", timed by events";
  }
  Result<void> made = enter_context();
  if (made) made = note_start();
  // Nothing of ours may be allocated before: it could lie where the capture's memory has to be.
  if (made) made = reserve(plan);
  if (made) made = raise_limits();
  if (made) made = checked("creating a stream", driver().cuStreamCreate(&m_stream, CU_STREAM_NON_BLOCKING));
  if (made) made = checked("creating an event", driver().cuEventCreate(&m_before, CU_EVENT_DEFAULT));
  if (made) made = checked("creating an event", driver().cuEventCreate(&m_after, CU_EVENT_DEFAULT));
  if (made) made = make_staging();
  if (made) m_opened.stand_ins = stand_ins();
  return made;
}

Result<void> CudaDriver::raise_limits() {
  constexpr std::pair<const char*, CUlimit> k_limits[] = {
      {"stack_limit", CU_LIMIT_STACK_SIZE},
      {"printf_limit", CU_LIMIT_PRINTF_FIFO_SIZE},
      {"persisting_l2_limit", CU_LIMIT_PERSISTING_L2_CACHE_SIZE},
  };
  for (const auto& [name, limit] : k_limits) {
    const auto wanted = m_settings.limits.find(name);
    std::size_t now = 0;
    if (wanted == m_settings.limits.end() || driver().cuCtxGetLimit(&now, limit) != CUDA_SUCCESS || now >= wanted->second) continue;
    Result<void> raised = checked("setting " + wanted->first + " to " + std::to_string(wanted->second),
                                  driver().cuCtxSetLimit(limit, wanted->second));
    if (!raised) return raised;
  }
  return {};
}

// Memory of another GPU than the kernel's.
Result<void> CudaDriver::check_owner(const replay::Plan& plan, const replay::Region& region, int count) {
  if (region.device == replay::k_no_device) return {};
  const auto owner = static_cast<CUdevice>(plan.actual_device(region.device));
  if (owner == m_device) return {};
  const std::string what = "the capture holds memory of GPU " + std::to_string(region.device);
  if (owner >= count) return Error{ErrorCode::unsupported, what + ", and there are only " + std::to_string(count) + " here"};
  int reaches = 0;
  const CUresult asked = driver().cuDeviceCanAccessPeer(&reaches, m_device, owner);
  if (asked != CUDA_SUCCESS || reaches == 0) {
    return Error{ErrorCode::unsupported, what + ", which the kernel's GPU cannot reach here"};
  }
  // Memory can be made on a device that is in use only.
  m_has_peers = true;
  CUcontext context = nullptr;
  return checked("making a context of GPU " + std::to_string(owner), driver().cuDevicePrimaryCtxRetain(&context, owner));
}

CudaDriver::Peaks CudaDriver::peaks() const {
  const auto ask = [this](CUdevice_attribute which) {
    return static_cast<std::uint64_t>(std::max(0, device_attribute(m_device, which)));
  };
  // Clocks are in kHz. Memory moves data at both edges of its clock, and the bus is told in bits.
  return {
      .memory_bytes_per_s = ask(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1000 * 2 * ask(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8,
      .cache_bytes = ask(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
      .compute_units = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
      .clock_hz = ask(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1000,
  };
}

Result<void> CudaDriver::check_devices(const replay::Plan& plan) {
  int count = 0;
  driver().cuDeviceGetCount(&count);
  const std::uint32_t wanted = plan.actual_device(plan.kernel_device);
  if (wanted >= static_cast<std::uint32_t>(count)) {
    return Error{ErrorCode::unsupported, "there is no GPU " + std::to_string(wanted) + " here, only " + std::to_string(count)};
  }
  if (Result<void> got = checked("cuDeviceGet", driver().cuDeviceGet(&m_device, static_cast<int>(wanted))); !got) {
    return got;
  }
  for (const replay::Region& region : plan.regions) {
    if (Result<void> fine = check_owner(plan, region, count); !fine) return fine;
  }
  char name[256] = {};
  driver().cuDeviceGetName(name, sizeof name, m_device);
  int version = 0;
  driver().cuDriverGetVersion(&version);
  m_opened.name = name;
  m_opened.isa = "sm_" + std::to_string(device_attribute(m_device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
                 std::to_string(device_attribute(m_device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  m_opened.runtime = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  if (m_opened.isa != plan.isa) {
    return Error{ErrorCode::unsupported, "the capture is of a GPU of architecture " + plan.isa + ", and " + name +
                                             " is " + m_opened.isa};
  }
  m_opened.peaks = peaks();
  m_host_node = std::max(0, device_attribute(m_device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {m_device}};
  std::size_t granule = 0;
  const CUresult asked =
      driver().cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (asked == CUDA_SUCCESS && granule != 0) m_granule = granule;
  return {};
}

Result<std::unique_ptr<replay::Code>> CudaDriver::load(std::span<const std::byte> file, const std::string& symbol,
                                                         std::optional<std::uint64_t>) {
  auto code = std::make_unique<LoadedCode>();
  code->file.assign(file.begin(), file.end());
  code->file.push_back(std::byte{0});  // PTX is a string
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  CUresult status = driver().cuModuleLoadDataEx(&code->module, code->file.data(), 2, options, values);
  if (status != CUDA_SUCCESS) {
    // A damaged file, or code that this GPU and driver do not take.
    const bool is_damaged = status == CUDA_ERROR_INVALID_IMAGE || status == CUDA_ERROR_INVALID_PTX;
    Error error{is_damaged ? ErrorCode::invalid_argument : ErrorCode::unsupported,
                describe("loading the code on " + m_opened.isa, status)};
    if (log[0] != '\0') error.message += ": " + std::string(log);
    if (status == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
      error.message += ". This driver compiles what toolkits up to " + m_opened.runtime.substr(0, m_opened.runtime.find(',')) +
                       " make: compile with one of them, or to a cubin";
    }
    return error;
  }
  m_modules.push_back(code->module);
  status = driver().cuModuleGetFunction(&code->function, code->module, symbol.c_str());
  if (status == CUDA_ERROR_NOT_FOUND) return Error{ErrorCode::not_found, "the code object has no kernel " + symbol};
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("finding the kernel " + symbol, status)};
  int shared_bytes = 0;
  driver().cuFuncGetAttribute(&shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, code->function);
  code->shared_bytes = static_cast<std::uint32_t>(shared_bytes);
  int local_bytes = 0;
  driver().cuFuncGetAttribute(&local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, code->function);
  m_local_bytes = std::max(m_local_bytes, static_cast<std::uint64_t>(std::max(local_bytes, 0)));
  std::size_t stack_bytes = 0;
  if (has_open_stack(code->file) && driver().cuCtxGetLimit(&stack_bytes, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS) {
    m_local_bytes = std::max<std::uint64_t>(m_local_bytes, stack_bytes);
  }
  m_may_launch = m_may_launch || may_launch(code->file);
  for (std::size_t i = 0; driver().cuFuncGetParamInfo != nullptr; ++i) {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    if (driver().cuFuncGetParamInfo(code->function, i, &offset, &bytes) != CUDA_SUCCESS) break;
    code->parameter_bytes = std::max(code->parameter_bytes, static_cast<std::uint32_t>(offset + bytes));
  }
  for (const replay::Variable& variable : m_plan->variables) {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    if (driver().cuModuleGetGlobal_v2(&address, &bytes, code->module, variable.name.c_str()) == CUDA_SUCCESS) {
      m_variables.push_back({address, bytes});
    }
  }
  return std::unique_ptr<replay::Code>(std::move(code));
}

// Local memory also in front of a run that stays warm: it would find there what the run before left. It goes through the cache,
// which has the same to bear for all code of a replay.
Result<void> CudaDriver::scrub(const replay::Code&, bool) {
  // Lines of the cache that an earlier run wanted to stay there are like all others again. Not all GPUs have them.
  if (driver().cuCtxResetPersistingL2Cache != nullptr) (void)driver().cuCtxResetPersistingL2Cache();
  return m_scrub.run(m_device, m_local_bytes, m_stream);
}

Result<replay::Timing> CudaDriver::launch(replay::Code& code, const replay::Launch& launch) {
  auto& loaded = static_cast<LoadedCode&>(code);
  if (loaded.parameter_bytes > launch.kernarg.size()) {
    return Error{ErrorCode::invalid_argument, "the kernel takes " + std::to_string(loaded.parameter_bytes) +
                                                  " bytes of parameters, and the capture has " +
                                                  std::to_string(launch.kernarg.size())};
  }
  const auto refused = [&](const char* what, CUresult status) {
    return Error{ErrorCode::device, describe(what, status) + why_refused(m_device, loaded.function, launch)};
  };
  if (launch.dynamic_lds_bytes + loaded.shared_bytes > k_shared_without_asking) {
    const CUresult status = driver().cuFuncSetAttribute(loaded.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                        static_cast<int>(launch.dynamic_lds_bytes));
    if (status != CUDA_SUCCESS) return refused("asking for shared memory", status);
  }
  if (m_settings.carveout >= 0) {
    driver().cuFuncSetAttribute(loaded.function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, m_settings.carveout);
  }
  std::vector<CUlaunchAttribute> attributes(m_settings.attributes.size() + 2);
  CUlaunchConfig config{};
  config.attrs = attributes.data();
  for (const auto& [id, value] : m_settings.attributes) {
    CUlaunchAttribute& repeated = attributes[config.numAttrs++];
    repeated.id = static_cast<CUlaunchAttributeID>(id);
    std::memcpy(&repeated.value, value.data(), std::min(value.size(), sizeof repeated.value));
  }
  if (const auto& [x, y, z] = m_settings.cluster; x != 0) {
    CUlaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {x, y, z};
    if (x * y * z > 8) {
      driver().cuFuncSetAttribute(loaded.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    }
  }
  if (m_plan->cooperative) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[config.numAttrs++].value.cooperative = 1;
  }
  config.gridDimX = static_cast<unsigned>(launch.blocks(0));
  config.gridDimY = static_cast<unsigned>(launch.blocks(1));
  config.gridDimZ = static_cast<unsigned>(launch.blocks(2));
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.dynamic_lds_bytes;
  config.hStream = m_stream;
  std::size_t bytes = launch.kernarg.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(launch.kernarg.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  if (m_timer.is_on()) {
    const CUresult status = driver().cuLaunchKernelEx(&config, loaded.function, nullptr, extra);
    if (status != CUDA_SUCCESS) return refused("launching the kernel", status);
    m_launched.push_back(&loaded);
    if (Result<void> marked = m_scrub.mark(m_stream); !marked) return marked.error();
    return replay::Timing{0, false};
  }
  CUresult status = driver().cuEventRecord(m_before, m_stream);
  if (status == CUDA_SUCCESS) status = driver().cuLaunchKernelEx(&config, loaded.function, nullptr, extra);
  if (status == CUDA_SUCCESS) status = driver().cuEventRecord(m_after, m_stream);
  if (status != CUDA_SUCCESS) return refused("launching the kernel", status);
  status = driver().cuEventSynchronize(m_after);
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("the kernel", status)};
  float milliseconds = 0;
  status = driver().cuEventElapsedTime(&milliseconds, m_before, m_after);
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("timing the kernel", status)};
  return replay::Timing{static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6)};
}

// A kernel that launches others ends before they do, and CUPTI tells nothing of them. What comes next in the stream waits for them:
// of code that may launch some, in whichever run, the time is the one until then. Of other code it is if that begins late behind
// each run.
Result<std::vector<replay::Timing>> CudaDriver::times() {
  const CUresult status = driver().cuStreamSynchronize(m_stream);
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("the kernel", status)};
  const std::vector<KernelTimer::Time> taken = m_timer.take();
  const std::vector<const LoadedCode*> launched = std::exchange(m_launched, {});
  if (taken.size() != launched.size()) {
    return Error{ErrorCode::device, "CUPTI told the times of " + std::to_string(taken.size()) +
                                        " kernels, and another number of them was launched"};
  }
  std::map<const LoadedCode*, std::uint64_t> behind;   // the least
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto known = behind.emplace(launched[i], taken[i].behind_ns).first;
    known->second = std::min(known->second, taken[i].behind_ns);
  }
  std::vector<replay::Timing> times;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const bool goes_on = m_may_launch || behind.at(launched[i]) > k_longest_gap_ns;
    times.push_back({taken[i].kernel_ns + (goes_on ? taken[i].behind_ns : 0)});
  }
  return times;
}

Result<void> CudaDriver::flush_cache() {
  if (m_flush == 0) {
    // Twice the cache: what a set holds is replaced whatever its policy.
    m_flush_bytes = 2 * static_cast<std::uint64_t>(device_attribute(m_device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
    m_flush_bytes = std::max<std::uint64_t>(m_flush_bytes, 64 << 20);
    if (Result<void> made = checked("allocating memory", driver().cuMemAlloc_v2(&m_flush, m_flush_bytes)); !made) {
      return made;
    }
  }
  const CUresult status = driver().cuMemsetD8Async(m_flush, 0, m_flush_bytes, m_stream);
  return checked("flushing the cache", status);
}

}  // namespace kerncap::cuda

int main(int argc, char** argv) {
  kerncap::cuda::CudaDriver driver;
  return kerncap::replay::replay_main(argc, argv, driver);
}

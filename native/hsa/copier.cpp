// The private copy path of a capture; see the header for why it exists.
#include "hsa/copier.hpp"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "hsa/api.hpp"
#include "hsa/embedded_kernels.hpp"
#include "hsa/packets.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::uint32_t k_queue_packets = 256;
constexpr std::size_t k_argument_block_bytes = 64;
constexpr std::size_t k_scratch_bytes = 4096;
constexpr std::uint32_t k_group_work_items = 256;
constexpr std::uint64_t k_bytes_per_work_item = 64;

struct CopyArguments {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t bytes;
  std::uint32_t groups;
};
static_assert(sizeof(CopyArguments) <= k_argument_block_bytes);

Result<void> wait_for(hsa_signal_t signal, Copier::Deadline deadline) noexcept {
  // Short copies end within microseconds, long ones within milliseconds.
  timespec pause{0, 5'000};
  while (api().core.hsa_signal_load_scacquire_fn(signal) > 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Error{ErrorCode::timeout, "a copy of device memory did not end in time"};
    }
    if (!enabled()) return Error{ErrorCode::io, capture::k_runtime_ends};
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(pause.tv_nsec * 2, 200'000L);
  }
  if (api().core.hsa_signal_load_scacquire_fn(signal) < 0) return Error{ErrorCode::device, "a copy of device memory failed"};
  return {};
}

hsa_signal_t new_signal() noexcept {
  hsa_signal_t signal{};
  api().core.hsa_signal_create_fn(1, 0, nullptr, &signal);
  return signal;
}

// Watched by polling only: no interrupt and no event, so it is cheap to make.
hsa_signal_t polled_signal() noexcept {
  hsa_signal_t signal{};
  api().ext.hsa_amd_signal_create_fn(1, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &signal);
  return signal;
}

void* allocate(const Pool* pool, std::size_t bytes, const std::vector<hsa_agent_t>& agents) noexcept {
  void* memory = nullptr;
  if (pool == nullptr) return nullptr;
  if (api().ext.hsa_amd_memory_pool_allocate_fn({pool->handle}, bytes, 0, &memory) != HSA_STATUS_SUCCESS) return nullptr;
  const auto count = static_cast<std::uint32_t>(agents.size());
  if (count != 0) api().ext.hsa_amd_agents_allow_access_fn(count, agents.data(), nullptr, memory);
  return memory;
}

const Pool* device_pool(std::uint32_t device) noexcept {
  for (const Pool& pool : tool()->agents.pools()) {
    if (pool.device == device && pool.kind == capture::MemoryKind::device_coarse) return &pool;
  }
  return nullptr;
}

}  // namespace

struct Copier::Engine final : capture::SlotCopier {
  std::uint32_t device = 0;
  hsa_agent_t agent{};
  hsa_queue_t* queue = nullptr;
  std::uint64_t kernel_object = 0;       // 0: no kernel for this target; the runtime copies instead
  std::uint32_t group_bytes = 0;
  std::uint32_t private_bytes = 0;
  std::uint64_t slots = 0;               // the device's address of the first
  std::byte* arguments = nullptr;        // one block per slot
  std::byte* scratch = nullptr;          // device memory
  std::vector<hsa_signal_t> done;        // one per slot; empty between captures

  Result<void> begin(std::uint32_t slot, std::uint64_t from, std::size_t bytes) noexcept override {
    if (tool()->snapshots.session().is_overtaken()) return Error{ErrorCode::device, capture::k_overtaken};
    launch(slot, from, slots + slot * tool()->channel->slot_bytes(), bytes);
    return {};
  }
  Result<void> wait(std::uint32_t slot, capture::Limit limit) noexcept override {
    return wait_for(done[slot], std::chrono::steady_clock::now() + limit);
  }
  // With the arguments and the signal of `block`.
  void launch(std::uint32_t block, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) noexcept;
};

Copier::Copier(capture::Channel& channel) : m_pipeline(channel) {}
Copier::~Copier() = default;

Result<void> Copier::prepare() noexcept {
  if (m_ready) return {};
  const Agents& agents = tool()->agents;
  capture::Channel& channel = *tool()->channel;
  std::vector<hsa_agent_t> all;
  for (const Device& device : agents.devices()) all.push_back(device.agent);
  const std::span<std::byte> slots = channel.slots();
  void* on_device = nullptr;
  const hsa_status_t pinned = api().ext.hsa_amd_memory_lock_fn(slots.data(), slots.size(), all.data(),
                                                               static_cast<int>(all.size()), &on_device);
  if (pinned != HSA_STATUS_SUCCESS) return hsa_error("pinning the staging memory", pinned);
  m_scratch = static_cast<std::byte*>(allocate(agents.kernarg_pool(), k_scratch_bytes, all));
  if (m_scratch == nullptr) return Error{ErrorCode::no_space, "no host memory for the copy queue"};
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    auto engine = std::make_unique<Engine>();
    engine->device = i;
    engine->agent = all[i];
    engine->slots = reinterpret_cast<std::uint64_t>(on_device);
    if (Result<void> ready = prepare_engine(*engine); !ready) return ready;
    m_engines.push_back(std::move(engine));
  }
  m_ready = true;
  if (Result<void> armed = arm(); !armed) return armed;
  // Everything that is loaded lazily is loaded now, while nothing is held.
  const auto deadline = std::chrono::steady_clock::now() + channel.wait_limit();
  for (const auto& engine : m_engines) {
    std::byte byte{};
    const auto scratch = reinterpret_cast<std::uint64_t>(engine->scratch);
    if (Result<void> read_one = read(engine->device, scratch, &byte, 1, deadline); !read_one) return read_one;
    const std::uint64_t gpu = engine->agent.handle;
    const std::uint64_t host = agents.host().handle;
    if (Result<void> warm = drain({{gpu, host, 0}, {host, gpu, 0}, {gpu, gpu, 0}}, deadline); !warm) return warm;
  }
  disarm();
  return {};
}

Result<void> Copier::arm() noexcept {
  for (const auto& engine : m_engines) {
    while (engine->done.size() < tool()->channel->slot_count()) {
      const hsa_signal_t signal = polled_signal();
      if (signal.handle == 0) return Error{ErrorCode::no_space, "the runtime has no signal left"};
      engine->done.push_back(signal);
    }
  }
  return {};
}

void Copier::disarm() noexcept {
  if (!m_pipeline.is_empty()) return;  // a copy hangs: the device may still write to its signal
  for (const auto& engine : m_engines) {
    for (const hsa_signal_t signal : engine->done) api().core.hsa_signal_destroy_fn(signal);
    engine->done.clear();
  }
}

void Copier::end() noexcept {
  if (!m_pipeline.is_empty()) return;
  for (const auto& engine : m_engines) api().core.hsa_queue_destroy_fn(engine->queue);
  m_engines.clear();
}

Result<void> Copier::prepare_engine(Engine& engine) noexcept {
  const hsa_status_t status =
      api().core.hsa_queue_create_fn(engine.agent, k_queue_packets, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr,
                                     UINT32_MAX, UINT32_MAX, &engine.queue);
  if (status != HSA_STATUS_SUCCESS) return hsa_error("creating the copy queue", status);
  const std::uint32_t blocks = tool()->channel->slot_count();
  engine.arguments = static_cast<std::byte*>(
      allocate(tool()->agents.kernarg_pool(), blocks * k_argument_block_bytes, {engine.agent}));
  engine.scratch = static_cast<std::byte*>(allocate(device_pool(engine.device), k_scratch_bytes, {}));
  if (engine.arguments == nullptr || engine.scratch == nullptr) {
    return Error{ErrorCode::no_space, "no memory for the copy queue"};
  }
  return load_kernel(engine);
}

Result<void> Copier::load_kernel(Engine& engine) noexcept {
  const auto& core = api().core;
  for (const EmbeddedKernel& candidate : embedded_kernels("copy", tool()->agents.devices()[engine.device].isa)) {
    hsa_code_object_reader_t reader{};
    hsa_executable_t executable{};
    hsa_executable_symbol_t symbol{};
    core.hsa_code_object_reader_create_from_memory_fn(candidate.bytes, candidate.size, &reader);
    core.hsa_executable_create_alt_fn(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                      &executable);
    hsa_status_t status =
        core.hsa_executable_load_agent_code_object_fn(executable, engine.agent, reader, nullptr, nullptr);
    if (status == HSA_STATUS_SUCCESS) status = core.hsa_executable_freeze_fn(executable, nullptr);
    if (status == HSA_STATUS_SUCCESS) {
      status = core.hsa_executable_get_symbol_by_name_fn(executable, "kerncap_copy.kd", &engine.agent, &symbol);
    }
    if (status != HSA_STATUS_SUCCESS) {
      core.hsa_executable_destroy_fn(executable);
      core.hsa_code_object_reader_destroy_fn(reader);
      continue;
    }
    core.hsa_executable_symbol_get_info_fn(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &engine.kernel_object);
    core.hsa_executable_symbol_get_info_fn(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
                                           &engine.group_bytes);
    core.hsa_executable_symbol_get_info_fn(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
                                           &engine.private_bytes);
    return {};
  }
  tool()->snapshots.warn("no copy kernel was built for this GPU: the runtime's own copy path is used");
  return {};
}

void Copier::Engine::launch(std::uint32_t block, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) noexcept {
  const auto& core = api().core;
  const hsa_signal_t signal = done[block];
  core.hsa_signal_store_relaxed_fn(signal, 1);
  if (kernel_object == 0) {
    api().ext.hsa_amd_memory_async_copy_fn(reinterpret_cast<void*>(to), tool()->agents.host(),
                                           reinterpret_cast<const void*>(from), agent, bytes, 0, nullptr, signal);
    return;
  }
  const std::uint64_t work_items = std::max<std::uint64_t>(1, (bytes + k_bytes_per_work_item - 1) / k_bytes_per_work_item);
  const auto groups = static_cast<std::uint32_t>((work_items + k_group_work_items - 1) / k_group_work_items);
  std::byte* its = arguments + block * k_argument_block_bytes;
  const CopyArguments values{from, to, bytes, groups};
  std::memcpy(its, &values, sizeof values);
  hsa_kernel_dispatch_packet_t packet{};
  packet.header = static_cast<std::uint16_t>((HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE) | k_system_scopes);
  packet.setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  packet.workgroup_size_x = k_group_work_items;
  packet.workgroup_size_y = packet.workgroup_size_z = 1;
  packet.grid_size_x = groups * k_group_work_items;
  packet.grid_size_y = packet.grid_size_z = 1;
  packet.group_segment_size = group_bytes;
  packet.private_segment_size = private_bytes;
  packet.kernel_object = kernel_object;
  packet.kernarg_address = its;
  packet.completion_signal = signal;
  // Never full: there are fewer slots in flight than packets in this queue.
  const std::uint64_t index = core.hsa_queue_add_write_index_relaxed_fn(queue, 1);
  auto* ring = static_cast<Packet*>(queue->base_address);
  publish(ring[index & (queue->size - 1)], to_packet(packet));
  core.hsa_signal_store_screlease_fn(queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

Result<void> Copier::send(std::uint32_t stream, const capture::Allocation& region, std::uint32_t reader_device,
                          capture::Limit limit, const capture::Look* look) noexcept {
  Result<void> sent = m_pipeline.send(*m_engines[reader_device], stream, region.base, region.bytes, limit, look);
  if (sent) m_pipeline.close(stream);
  return sent;
}

Result<void> Copier::read(std::uint32_t device, std::uint64_t address, void* to, std::size_t bytes,
                          Deadline deadline) noexcept {
  if (bytes > k_scratch_bytes - 16) return Error{ErrorCode::invalid_argument, "read of more than one scratch page"};
  Engine& engine = *m_engines[device];
  // The kernel wants aligned addresses: start a little earlier. Nothing is in flight here.
  const std::uint64_t skew = address % 16;
  engine.launch(0, address - skew, reinterpret_cast<std::uint64_t>(m_scratch), bytes + skew);
  if (Result<void> waited = wait_for(engine.done[0], deadline); !waited) return waited;
  std::memcpy(to, m_scratch + skew, bytes);
  return {};
}

Result<void> Copier::drain(const std::vector<Copies::Route>& routes, Deadline deadline) noexcept {
  const std::uint64_t host = tool()->agents.host().handle;
  const auto end_of = [&](std::uint64_t agent, std::size_t half) -> std::byte* {
    const std::uint32_t device = tool()->agents.index_of({agent});
    std::byte* base = device < m_engines.size() ? m_engines[device]->scratch : m_scratch;
    return base + half * (k_scratch_bytes / 2);
  };
  std::vector<hsa_signal_t> signals;
  Result<void> result;
  for (const Copies::Route& route : routes) {
    if (route.to == host && route.from == host) continue;
    const hsa_signal_t signal = new_signal();
    hsa_status_t status;
    if (route.engine == 0) {
      status = api().ext.hsa_amd_memory_async_copy_fn(end_of(route.to, 1), {route.to}, end_of(route.from, 0),
                                                      {route.from}, 16, 0, nullptr, signal);
    } else {
      status = api().ext.hsa_amd_memory_async_copy_on_engine_fn(
          end_of(route.to, 1), {route.to}, end_of(route.from, 0), {route.from}, 16, 0, nullptr, signal,
          static_cast<hsa_amd_sdma_engine_id_t>(route.engine), false);
    }
    if (status == HSA_STATUS_SUCCESS) {
      signals.push_back(signal);
    } else {
      api().core.hsa_signal_destroy_fn(signal);  // no such route (any more): nothing of ours waits on it
    }
  }
  for (const hsa_signal_t signal : signals) {
    if (result) result = wait_for(signal, deadline);
    // A signal that an engine may still write to is not ours to destroy.
    if (result) api().core.hsa_signal_destroy_fn(signal);
  }
  if (!result && result.error().code == ErrorCode::timeout) {
    return Error{ErrorCode::timeout, "the program's earlier copies did not end in time"};
  }
  return result;
}

}  // namespace kerncap::hsa

// Makes intercept queues and rewrites what is submitted to them. The callback runs under the queue's lock, on
// the program's thread or on the runtime's event thread: it never waits, and it calls the writer exactly once.
#include "hsa/queues.hpp"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

// Packets that do not fit the ring make the runtime stash and retry, a path that has had bugs: small rings
// are enlarged. Large enough for any batch that HIP submits at once, with room for our own packets.
constexpr std::uint32_t k_least_ring_packets = 4096;
constexpr std::uint32_t k_scratch_extra_packets = 16;
constexpr std::uint64_t k_packets_per_capture = 3;  // beside the dispatch itself
// Of the device's ring, kept free for packets of ours: no more than an eighth of it.
constexpr std::uint64_t k_spare_packets = 256;

using Writer = hsa_amd_queue_intercept_packet_writer;

// A packet that ROCr does not pass on: it calls us back with the ring that the device reads.
Packet hardware_marker(Queue& queue) noexcept {
  amd_aql_intercept_marker_t marker{};
  marker.header = HSA_PACKET_TYPE_VENDOR_SPECIFIC << HSA_PACKET_HEADER_TYPE;
  marker.format = AMD_AQL_FORMAT_INTERCEPT_MARKER;
  marker.callback = [](const amd_aql_intercept_marker_t* packet, hsa_queue_t* hardware, std::uint64_t) {
    reinterpret_cast<Queue*>(packet->user_data[0])->hardware.store(hardware, std::memory_order_release);
  };
  marker.user_data[0] = reinterpret_cast<std::uint64_t>(&queue);
  Packet packet{};
  static_assert(sizeof marker == sizeof packet);
  std::memcpy(&packet, &marker, sizeof packet);
  return packet;
}

// How far the program's packets are done, less `spare`. The runtime copies them from the ring that the program sees to
// the one that the device reads, and calls a place free once that is done; what does not fit is stashed. There ROCr 7.2
// breaks, with any tool: its stash loses a wake-up, and what has piled up behind it, if more than 256 packets that
// wrap around, is copied beyond the end of a buffer. So a place is free here once the device has taken the packet.
// While we profile, a dispatch also counts as under way until its time was read: there is a signal for each place.
std::uint64_t done_by_device(const Queue& queue, std::uint64_t taken, std::uint64_t spare) noexcept {
  const hsa_queue_t* hardware = queue.hardware.load(std::memory_order_acquire);
  if (hardware == nullptr) return taken;
  const auto* amd = reinterpret_cast<const amd_queue_v2_t*>(hardware);
  // `taken` was read before and the write index is read last: what lies between them is never counted too low.
  const std::uint64_t read = __atomic_load_n(&amd->read_dispatch_id, __ATOMIC_ACQUIRE);
  std::uint64_t under_way = __atomic_load_n(&amd->write_dispatch_id, __ATOMIC_ACQUIRE) - read;
  if (queue.pending != nullptr) under_way = std::max(under_way, queue.pending->under_way());
  const std::uint64_t less = under_way + std::min(under_way, spare);
  return taken > less ? taken - less : 0;
}

// Rewrites a submission in the queue's scratch space, from the first change on.
class Rewriter {
 public:
  Rewriter(Queue& queue, const PacketView& packets) noexcept : m_queue(queue), m_packets(packets) {}

  void change(std::uint64_t at, const Packet* replacement, std::uint64_t count) noexcept {
    copy_up_to(at);
    for (std::uint64_t i = 0; i < count; ++i) m_queue.scratch[m_size++] = replacement[i];
    m_taken = at + 1;
  }
  void insert_first(const Packet& packet) noexcept { m_queue.scratch[m_size++] = packet; }
  // The device's ring must stay larger than any one submission, or ROCr aborts.
  [[nodiscard]] bool has_room_for(std::uint64_t more) const noexcept {
    return m_size + (m_packets.size() - m_taken) + more < m_queue.size;
  }
  void submit(const void* original, Writer writer) noexcept {
    if (m_size == 0) return writer(original, m_packets.size());
    copy_up_to(m_packets.size());
    writer(m_queue.scratch, m_size);
  }

 private:
  void copy_up_to(std::uint64_t end) noexcept {
    for (; m_taken < end; ++m_taken) m_queue.scratch[m_size++] = m_packets[m_taken];
  }

  Queue& m_queue;
  const PacketView& m_packets;
  std::uint64_t m_size = 0;
  std::uint64_t m_taken = 0;
};

void capture_packets(Queue& queue, const PacketView& packets, Rewriter& rewriter) noexcept {
  Tool& state = *tool();
  for (std::uint64_t i = 0; i < packets.size(); ++i) {
    if (type_of(header_of(packets[i])) != HSA_PACKET_TYPE_KERNEL_DISPATCH) continue;
    const std::uint64_t index = state.channel->control().dispatches.fetch_add(1, std::memory_order_relaxed);
    const hsa_kernel_dispatch_packet_t dispatch = as_dispatch(packets[i]);
    state.arguments.see(reinterpret_cast<std::uint64_t>(dispatch.kernarg_address));
    const Kernel* kernel = state.kernels.find(dispatch.kernel_object);
    if (kernel == nullptr) state.channel->control().unlisted.fetch_add(1, std::memory_order_relaxed);
    if (kernel != nullptr && kernel->enqueues) state.queues.watch_for_kernels();
    if (kernel == nullptr || kernel->rule == k_no_rule) continue;
    const auto match = state.snapshots.match(*kernel, dispatch);
    if (!match) continue;
    if (!rewriter.has_room_for(k_packets_per_capture)) {
      state.snapshots.refuse(capture::FailureCode::too_large_a_batch,
                             "the submission that holds the dispatch fills the whole queue");
      continue;
    }
    const std::uint32_t flags = (packets.size() > 1 ? capture::k_capture_from_batch : 0) |
                                (queue.is_cooperative ? capture::k_capture_cooperative : 0);
    std::array<Packet, 4> replacement;
    if (state.snapshots.begin(queue, *kernel, dispatch, index, *match, flags, replacement)) {
      rewriter.change(i, replacement.data(), replacement.size());
    }
  }
}

void replace_packets(const PacketView& packets, Rewriter& rewriter) noexcept {
  Tool& state = *tool();
  for (std::uint64_t i = 0; i < packets.size(); ++i) {
    if (type_of(header_of(packets[i])) != HSA_PACKET_TYPE_KERNEL_DISPATCH) continue;
    state.channel->control().dispatches.fetch_add(1, std::memory_order_relaxed);
    const Kernel* kernel = state.kernels.find(as_dispatch(packets[i]).kernel_object);
    if (kernel != nullptr && kernel->enqueues) state.queues.watch_for_kernels();
    if (kernel == nullptr || kernel->variant == nullptr) continue;
    Packet replacement = packets[i];
    if (state.replacements.rewrite(*kernel, replacement)) rewriter.change(i, &replacement, 1);
  }
}

std::uint32_t ring_packets(hsa_agent_t agent, std::uint32_t asked) noexcept {
  std::uint32_t largest = 0;
  api().core.hsa_agent_get_info_fn(agent, HSA_AGENT_INFO_QUEUE_MAX_SIZE, &largest);
  return std::max(asked, std::min(k_least_ring_packets, largest));
}

// We may have to add packets of our own from another thread: there is more than one producer.
hsa_queue_type32_t shared(hsa_queue_type32_t type) noexcept {
  return type == HSA_QUEUE_TYPE_SINGLE ? hsa_queue_type32_t{HSA_QUEUE_TYPE_MULTI} : type;
}

Packet* allocate_scratch(std::uint32_t packets) noexcept {
  // Untouched pages cost nothing: nearly all submissions pass through as they are.
  void* space = ::mmap(nullptr, packets * sizeof(Packet), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return space == MAP_FAILED ? nullptr : static_cast<Packet*>(space);
}

}  // namespace

void on_packets(const void* pkts, std::uint64_t count, std::uint64_t index, void* data,
                hsa_amd_queue_intercept_packet_writer writer) noexcept {
  Queue& queue = *static_cast<Queue*>(data);
  if (!enabled()) return writer(pkts, count);
  queue.used.store(true, std::memory_order_relaxed);
  const PacketView packets(pkts, count, index, *queue.handle);
  Rewriter rewriter(queue, packets);
  if (!queue.marked && rewriter.has_room_for(1)) {
    rewriter.insert_first(hardware_marker(queue));
    queue.marked = true;
  }
  if (tool()->profiling()) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (type_of(header_of(packets[i])) != HSA_PACKET_TYPE_KERNEL_DISPATCH) continue;
      Packet timed = packets[i];
      if (tool()->profiler.time(queue, timed)) rewriter.change(i, &timed, 1);
    }
  } else if (tool()->replacing()) {
    replace_packets(packets, rewriter);
  } else {
    capture_packets(queue, packets, rewriter);
  }
  rewriter.submit(pkts, writer);
}

bool Queues::watch(hsa_agent_t agent, std::uint32_t device, hsa_queue_type32_t type, hsa_queue_t* queue,
                   hsa_queue_t* below) noexcept {
  auto made = std::make_unique<Queue>();
  made->scratch = allocate_scratch(queue->size + k_scratch_extra_packets);
  if (made->scratch == nullptr) return false;
  made->handle = queue;
  made->below = below;
  made->device = device;
  made->size = queue->size;
  made->is_cooperative = type == HSA_QUEUE_TYPE_COOPERATIVE;
  // Registered last: from then on the callback may come. Until then nobody else knows the queue.
  std::unique_lock lock(m_mutex);
  made->index = static_cast<std::uint32_t>(
      tool()->channel->control().queues.fetch_add(1, std::memory_order_relaxed));
  if (tool()->profiling()) made->pending = tool()->profiler.add_queue(agent, device, made->index, made->size);
  if (api().ext.hsa_amd_queue_intercept_register_fn(queue, on_packets, made.get()) != HSA_STATUS_SUCCESS) {
    ::munmap(made->scratch, (queue->size + k_scratch_extra_packets) * sizeof(Packet));
    return false;
  }
  api().ext.hsa_amd_profiling_set_profiler_enabled_fn(queue, 1);
  learn_doorbell(*made);
  m_table.add(queue, made.get());
  Queue& known = *m_queues.emplace_back(std::move(made));
  lock.unlock();
  tool()->snapshots.hold_too(known);
  return true;
}

hsa_status_t Queues::create(hsa_agent_t agent, std::uint32_t device, std::uint32_t size, hsa_queue_type32_t type,
                            ErrorCallback callback, void* data, std::uint32_t private_bytes,
                            std::uint32_t group_bytes, hsa_queue_t** queue) noexcept {
  if (api().queues_of_another_tool) {
    // What it makes is nearly always an intercept queue, and that may have several interceptors.
    const hsa_status_t status = api().core.hsa_queue_create_fn(agent, ring_packets(agent, size), shared(type), callback,
                                                               data, private_bytes, group_bytes, queue);
    if (status != HSA_STATUS_SUCCESS || watch(agent, device, type, *queue)) return status;
    api().core.hsa_queue_destroy_fn(*queue);
  }
  hsa_status_t status = create_intercepted(agent, device, size, type, callback, data, private_bytes, group_bytes, queue);
  if (status == HSA_STATUS_SUCCESS) return status;
  tool()->channel->control().uninterceptable_queues.fetch_add(1, std::memory_order_relaxed);
  return api().core.hsa_queue_create_fn(agent, size, type, callback, data, private_bytes, group_bytes, queue);
}

hsa_status_t Queues::create_intercepted(hsa_agent_t agent, std::uint32_t device, std::uint32_t size,
                                        hsa_queue_type32_t type, ErrorCallback callback, void* data,
                                        std::uint32_t private_bytes, std::uint32_t group_bytes,
                                        hsa_queue_t** queue) noexcept {
  if (type == HSA_QUEUE_TYPE_COOPERATIVE) {
    return create_cooperative(agent, device, size, callback, data, private_bytes, group_bytes, queue);
  }
  const hsa_status_t status = api().ext.hsa_amd_queue_intercept_create_fn(
      agent, ring_packets(agent, size), shared(type), callback, data, private_bytes, group_bytes, queue);
  if (status != HSA_STATUS_SUCCESS || watch(agent, device, type, *queue)) return status;
  api().core.hsa_queue_destroy_fn(*queue);
  return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

// All cooperative queues of an agent are one to the runtime, which counts its users. An intercept queue would destroy
// what lies below it without asking for that count, and the runtime once more when the program ends. So we take one
// part in the queue below for ourselves, give the intercept queue above it to all users, and never destroy that:
// with the last user we give back both parts, ours and the one that the intercept queue took.
hsa_status_t Queues::create_cooperative(hsa_agent_t agent, std::uint32_t device, std::uint32_t size,
                                        ErrorCallback callback, void* data, std::uint32_t private_bytes,
                                        std::uint32_t group_bytes, hsa_queue_t** queue) noexcept {
  constexpr hsa_queue_type32_t type = HSA_QUEUE_TYPE_COOPERATIVE;
  const std::lock_guard lock(m_cooperative_mutex);
  for (Queue* known : live()) {
    if (known->below == nullptr || known->device != device || known->gone.load()) continue;
    ++known->users;
    *queue = known->handle;
    return HSA_STATUS_SUCCESS;
  }
  hsa_queue_t* below = nullptr;
  hsa_status_t status = api().core.hsa_queue_create_fn(agent, ring_packets(agent, size), type, callback, data,
                                                       private_bytes, group_bytes, &below);
  if (status != HSA_STATUS_SUCCESS) return status;
  status = api().ext.hsa_amd_queue_intercept_create_fn(agent, ring_packets(agent, size), type, callback, data,
                                                       private_bytes, group_bytes, queue);
  if (status == HSA_STATUS_SUCCESS) {
    if (watch(agent, device, type, *queue, below)) return status;
    api().core.hsa_queue_destroy_fn(below);
    status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  api().core.hsa_queue_destroy_fn(below);
  return status;
}

bool Queues::leave_cooperative(const hsa_queue_t* handle) noexcept {
  Queue* queue = m_table.find(handle);
  if (queue == nullptr || queue->below == nullptr) return false;
  const std::lock_guard lock(m_cooperative_mutex);
  if (--queue->users == 0) {
    (void)give_up(*queue);
    api().core.hsa_queue_destroy_fn(queue->below);
    api().core.hsa_queue_destroy_fn(queue->below);
    queue->destroyed.store(true, std::memory_order_release);
  }
  return true;
}

Queue* Queues::forget(const hsa_queue_t* handle) noexcept {
  Queue* found = nullptr;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& queue : m_queues) {
      if (queue->handle == handle && !queue->gone.load()) found = queue.get();
    }
  }
  return found != nullptr && give_up(*found) ? found : nullptr;
}

bool Queues::give_up(Queue& queue) noexcept {
  {
    // Who rings for the device does so under the lock.
    const std::lock_guard lock(m_mutex);
    if (queue.gone.exchange(true, std::memory_order_seq_cst)) return false;
  }
  while (queue.in_use.load(std::memory_order_seq_cst) != 0 && enabled()) {
    const timespec pause{0, 20'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

std::vector<Queue*> Queues::live() const {
  std::vector<Queue*> result;
  const std::lock_guard lock(m_mutex);
  for (const auto& queue : m_queues) {
    if (!queue->destroyed.load(std::memory_order_acquire)) result.push_back(queue.get());
  }
  return result;
}

core::Result<bool> Queues::append(Queue& queue, const Packet* packets, std::uint64_t count,
                                  std::uint64_t limit_ms) noexcept {
  hsa_queue_t* handle = queue.handle;
  const auto& core = api().core;
  const QueueUse use(queue);
  for (std::uint64_t waited_ms = 0; use && !queue.gone.load(std::memory_order_acquire); ++waited_ms) {
    std::uint64_t write = core.hsa_queue_load_write_index_relaxed_fn(handle);
    const std::uint64_t read = done_by_device(queue, core.hsa_queue_load_read_index_scacquire_fn(handle), 0);
    if (write + count - read <= handle->size &&
        core.hsa_queue_cas_write_index_scacq_screl_fn(handle, write, write + count) == write) {
      auto* ring = static_cast<Packet*>(handle->base_address);
      for (std::uint64_t i = 0; i < count; ++i) publish(ring[(write + i) & (handle->size - 1)], packets[i]);
      core.hsa_signal_store_screlease_fn(handle->doorbell_signal,
                                         static_cast<hsa_signal_value_t>(write + count - 1));
      return true;
    }
    if (!enabled()) return core::Error{core::ErrorCode::io, capture::k_runtime_ends};
    if (waited_ms >= limit_ms) {
      return core::Error{core::ErrorCode::timeout, "another queue stayed full while it had to be held"};
    }
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

std::uint64_t Queues::read_index(const hsa_queue_t* handle, std::uint64_t taken) noexcept {
  Queue* queue = m_table.find(handle);
  // The address may be that of another queue by now, which is none of ours.
  if (queue == nullptr || queue->gone.load(std::memory_order_acquire)) return taken;
  const std::uint64_t done = done_by_device(*queue, taken, std::min<std::uint64_t>(k_spare_packets, queue->size / 8));
  std::uint64_t shown = queue->shown_read_index.load(std::memory_order_relaxed);
  while (shown < done && !queue->shown_read_index.compare_exchange_weak(shown, done, std::memory_order_relaxed)) {
  }
  return std::max(shown, done);
}

}  // namespace kerncap::hsa

namespace kerncap::hsa::hooks {

hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                              void (*callback)(hsa_status_t status, hsa_queue_t* source, void* data), void* data,
                              uint32_t private_segment_size, uint32_t group_segment_size, hsa_queue_t** queue) {
  const std::uint32_t device = enabled() && queue != nullptr ? tool()->agents.index_of(agent) : capture::k_no_device;
  if (device == capture::k_no_device) {
    return api().core.hsa_queue_create_fn(agent, size, type, callback, data, private_segment_size,
                                          group_segment_size, queue);
  }
  QueueErrors::take_part(callback, data);
  return tool()->queues.create(agent, device, size, type, callback, data, private_segment_size,
                               group_segment_size, queue);
}

// Another tool that was loaded after us makes its queues by this.
hsa_status_t hsa_amd_queue_intercept_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                                            void (*callback)(hsa_status_t status, hsa_queue_t* source, void* data),
                                            void* data, uint32_t private_segment_size, uint32_t group_segment_size,
                                            hsa_queue_t** queue) {
  const std::uint32_t device = enabled() && queue != nullptr ? tool()->agents.index_of(agent) : capture::k_no_device;
  if (device == capture::k_no_device) {
    return api().ext.hsa_amd_queue_intercept_create_fn(agent, size, type, callback, data, private_segment_size,
                                                       group_segment_size, queue);
  }
  QueueErrors::take_part(callback, data);
  return tool()->queues.create_intercepted(agent, device, size, type, callback, data, private_segment_size,
                                           group_segment_size, queue);
}

std::uint64_t hsa_queue_load_read_index_scacquire(const hsa_queue_t* queue) {
  const std::uint64_t taken = api().core.hsa_queue_load_read_index_scacquire_fn(queue);
  return enabled() ? tool()->queues.read_index(queue, taken) : taken;
}

std::uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t* queue) {
  const std::uint64_t taken = api().core.hsa_queue_load_read_index_relaxed_fn(queue);
  return enabled() ? tool()->queues.read_index(queue, taken) : taken;
}

hsa_status_t hsa_queue_destroy(hsa_queue_t* queue) {
  // The first also where we have ended our part: the queue would still be destroyed twice.
  if (tool() != nullptr && tool()->queues.leave_cooperative(queue)) return HSA_STATUS_SUCCESS;
  Queue* const ours = enabled() ? tool()->queues.forget(queue) : nullptr;
  const hsa_status_t status = api().core.hsa_queue_destroy_fn(queue);
  if (ours != nullptr) ours->destroyed.store(true, std::memory_order_release);
  return status;
}

}  // namespace kerncap::hsa::hooks

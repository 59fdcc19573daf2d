// Kernel dispatch packets of an AQL queue: what is checked, scratch memory, and what happens when a kernel ends.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "softgpu/device/aql_queue.hpp"
#include "softgpu/device/clock.hpp"
#include "softgpu/device/kernel_name.hpp"
#include "softgpu/device/reach.hpp"
#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_max_running = 16;  // kernels of one queue in the engine at once
constexpr std::uint64_t k_max_group_work_items = 1024;
constexpr std::uint64_t k_descriptor_bytes = 64;
constexpr std::uint64_t k_descriptor_properties = 56;  // 16 bits
constexpr std::uint16_t k_property_wave32 = 1U << 10;

// compute_tmpring_size: how many waves may have scratch memory at once, and how much each.
struct ScratchLayout {
  std::uint64_t bytes_per_wave;
  std::uint32_t waves;
};

[[nodiscard]] ScratchLayout decode_scratch(const Chip& chip, std::uint32_t tmpring) noexcept {
  const std::uint32_t waves = tmpring & 0xFFF, size = tmpring >> 12 & ((1U << chip.tmpring_size_bits) - 1);
  return {std::uint64_t{size} * chip.tmpring_unit_bytes, waves * chip.tmpring_parts};
}

[[nodiscard]] aql::QueueError error_of(const Fault& fault) noexcept {
  switch (fault.kind) {
    case FaultKind::lds_out_of_range:
    case FaultKind::misaligned_address: return aql::QueueError::aperture_violation;
    case FaultKind::trap: return aql::QueueError::trap;
    case FaultKind::bad_descriptor: return aql::QueueError::invalid_code;
    default: return aql::QueueError::illegal_instruction;
  }
}

}  // namespace

bool AqlQueue::check(std::uint64_t index, const aql::KernelDispatch& packet) {
  const unsigned dimensions = packet.setup & 3;
  std::uint64_t group_work_items = 1;
  for (unsigned i = 0; i < 3; ++i) {
    if (dimensions == 0 || packet.grid_size[i] == 0 || packet.workgroup_size[i] == 0) {
      fail(index, aql::QueueError::invalid_dimension, "dispatch packet with an empty grid, work-group or no dimension");
      return false;
    }
    group_work_items *= packet.workgroup_size[i];
  }
  if (group_work_items > k_max_group_work_items) {
    fail(index, aql::QueueError::group_too_large,
         "dispatch packet with " + std::to_string(group_work_items) + " work-items in a work-group; at most 1024 fit");
    return false;
  }
  const std::uint64_t lds_bytes = std::uint64_t{m_context.gpu.chip.lds_kib} * 1024;
  if (packet.group_segment_size > lds_bytes) {
    fail(index, aql::QueueError::invalid_group_memory,
         "dispatch packet that wants " + std::to_string(packet.group_segment_size) + " bytes of LDS of " +
             std::to_string(lds_bytes));
    return false;
  }
  std::byte descriptor[k_descriptor_bytes];
  if (!m_memory.read(packet.kernel_object, descriptor, sizeof descriptor)) {
    char text[96];
    std::snprintf(text, sizeof text, "dispatch packet whose kernel object 0x%llx is not in memory of this GPU",
                  static_cast<unsigned long long>(packet.kernel_object));
    fail(index, aql::QueueError::invalid_code, text);
    return false;
  }
  return true;
}

AqlQueue::Start AqlQueue::start_kernel(std::uint64_t index, const aql::KernelDispatch& packet) {
  if (m_running >= k_max_running) return Start::waits_for_kernels;
  if (!check(index, packet)) return Start::failed;
  const Chip& chip = m_context.gpu.chip;

  Dispatch dispatch;
  dispatch.target = chip.target;
  dispatch.space = &m_context.gpu.space;
  dispatch.owner = this;
  dispatch.descriptor_va = packet.kernel_object;
  dispatch.kernarg_va = packet.kernarg_address;
  dispatch.packet_va = packet_address(index);
  dispatch.queue_va = m_queue_va;
  dispatch.dispatch_id = index;
  std::copy_n(packet.grid_size, 3, dispatch.grid);
  std::copy_n(packet.workgroup_size, 3, dispatch.group);
  dispatch.group_segment_size_bytes = packet.group_segment_size;
  dispatch.private_segment_size_bytes = packet.private_segment_size;
  dispatch.shared_base = k_lds_aperture;
  dispatch.private_base = k_private_aperture;
  dispatch.max_lds_bytes = chip.lds_kib * 1024;
  dispatch.units = {chip.compute_units, chip.simds_per_unit, chip.waves_per_simd, chip.registers_per_simd, dispatch.max_lds_bytes};
  dispatch.count_instructions = m_context.log != nullptr;
  if (m_context.lds != nullptr) dispatch.goes_on_beyond_lds = m_context.lds->for_kernel(m_context.gpu.space, packet.kernel_object);
  dispatch.interrupt = [&events = m_context.events](std::uint32_t m0) { events.interrupt(m0); };

  bool scratch_once = false;
  if (packet.private_segment_size != 0) {
    const Start ready = prepare_scratch(index, packet, dispatch);
    if (ready != Start::started) return ready;
    const auto properties = m_memory.load<std::uint32_t>(m_queue_va + offsetof(aql::Queue, queue_properties));
    scratch_once = properties && (*properties & aql::k_queue_scratch_once) != 0;
  }

  dispatch.kernels_before = m_kernels++;
  dispatch.begins_with_leftovers = m_context.keeps_leftovers;
  if (m_context.clock != nullptr) dispatch.clock_ahead_ns = m_context.clock->next_ns();
  std::shared_ptr<AccessRecord> accesses;
  if (m_context.accesses != nullptr) accesses = m_context.accesses->begin(packet.kernel_object);
  dispatch.accesses = accesses;
  m_in_flight.push_back({index, packet.completion_signal, scratch_once, false});
  ++m_running;
  m_context.engine.submit(std::move(dispatch), [self = shared_from_this(), index, packet, accesses](const DispatchOutcome& outcome) {
    self->on_kernel_end(index, packet, outcome, accesses.get());
  });
  return Start::started;
}

AqlQueue::Start AqlQueue::prepare_scratch(std::uint64_t index, const aql::KernelDispatch& packet, Dispatch& dispatch) {
  const Chip& chip = m_context.gpu.chip;
  unsigned lanes = 64;
  if (traits(chip.target).lanes == 32) {
    const auto properties = m_memory.load<std::uint16_t>(packet.kernel_object + k_descriptor_properties);
    if (properties && (*properties & k_property_wave32) != 0) lanes = 32;
  }
  aql::Queue queue{};
  if (!m_memory.read(m_queue_va, &queue, sizeof queue)) return fail(index, m_memory.fault(), "the queue's descriptor");

  const ScratchLayout layout = decode_scratch(chip, queue.compute_tmpring_size);
  // What the queue has is said for waves of 64 lanes.
  const std::uint64_t have = std::uint64_t{queue.scratch_wave64_lane_byte_size} * 64;
  if (std::uint64_t{packet.private_segment_size} * lanes > have || layout.waves == 0) {
    // The old memory may be taken away while the request is served.
    if (m_running != 0) return Start::waits_for_kernels;
    const auto request = lanes == 32 ? aql::QueueError::scratch_wave32 : aql::QueueError::scratch_wave64;
    if (!store_signal(m_memory, m_context.events, queue.queue_inactive_signal, static_cast<std::int64_t>(request))) {
      return fail(index, m_memory.fault(), "the queue's scratch request");
    }
    m_scratch.reset();
    m_scratch_requested = true;
    return Start::waits_for_memory;
  }
  if (m_scratch == nullptr || m_scratch->base() != queue.scratch_backing_memory_location ||
      m_scratch->bytes_per_wave() != layout.bytes_per_wave || m_scratch->count() != layout.waves) {
    m_scratch = std::make_shared<ScratchSlots>(queue.scratch_backing_memory_location, layout.bytes_per_wave,
                                               layout.waves);
  }
  dispatch.scratch = m_scratch;
  std::copy_n(queue.scratch_resource_descriptor, 4, dispatch.scratch_descriptor.begin());
  return Start::started;
}

void AqlQueue::on_kernel_end(std::uint64_t index, const aql::KernelDispatch& packet, const DispatchOutcome& outcome,
                             const AccessRecord* accesses) {
  const std::lock_guard lock(m_mutex);
  --m_running;
  if (m_state != State::running || outcome.aborted) return;
  if (outcome.fault) {
    report_fault(index, packet.kernel_object, outcome);
    return;
  }
  trace("queue %u, packet %llu: the kernel has ended", m_settings.id, static_cast<unsigned long long>(index));
  if (m_context.log != nullptr) {
    m_context.log->add({m_context.gpu.chip.target, m_context.gpu.index, m_settings.id, index,
                        kernel_symbol(m_context.gpu.space, packet.kernel_object), packet, outcome.counts, accesses});
  }
  const auto entry = std::find_if(m_in_flight.begin(), m_in_flight.end(), [&](const InFlight& e) { return e.index == index; });
  const InFlight ended = *entry;
  if (ended.scratch_once) {
    // Lent for one dispatch: ROCr takes it back, and lends again what the next one needs.
    const auto lender = m_memory.load<std::uint64_t>(m_queue_va + offsetof(aql::Queue, queue_inactive_signal));
    if (!lender || !store_signal(m_memory, m_context.events, *lender,
                                 static_cast<std::int64_t>(aql::QueueError::scratch_once_done))) {
      fail(index, m_memory.fault(), "the queue's scratch request");
      return;
    }
    m_scratch.reset();
    m_scratch_requested = true;
  }
  if (!signal(ended.completion_signal, {outcome.begin_ns / k_ns_per_tick, outcome.end_ns / k_ns_per_tick})) {
    fail(index, m_memory.fault(), "the completion signal of a kernel");
    return;
  }
  entry->done = true;
  retire();
  // Waits for memory are the runner's to poll.
  Progress progress = Progress::worked;
  while (progress == Progress::worked) progress = advance();
  if (progress == Progress::polls) m_context.changed();
}

// The fault with what its page table cannot know: whose memory it is.
Fault AqlQueue::with_reason(Fault fault) const noexcept {
  if (!fault.detail.empty()) return fault;
  if (fault.kind == FaultKind::unmapped_address) {
    fault.detail = whose_memory(m_context.gpu, m_context.gpus, fault.address);
    if (!fault.detail.empty()) fault.kind = FaultKind::forbidden_access;
  } else if (fault.kind == FaultKind::forbidden_access && fault.access != AccessKind::read) {
    fault.detail = "memory that this GPU may only read";
  }
  return fault;
}

void AqlQueue::report_fault(std::uint64_t index, std::uint64_t descriptor_va, const DispatchOutcome& outcome) {
  const Fault& fault = outcome.fault;
  // A kernel that never began has no instruction to tell of.
  const std::string what = fault.kind == FaultKind::bad_descriptor ? "cannot start: " + outcome.refusal : describe(with_reason(fault));
  const std::string text = kernel_name(m_context.gpu.space, descriptor_va) + ": " + what;
  const bool memory = fault.kind == FaultKind::unmapped_address || fault.kind == FaultKind::forbidden_access ||
                      fault.kind == FaultKind::bad_code_address;
  if (!memory) {
    fail(index, error_of(fault), text);
    return;
  }
  report("%s queue %u, packet %llu: %s", name(m_context.gpu.chip.target).data(), m_settings.id,
         static_cast<unsigned long long>(index), text.c_str());
  m_state = State::failed;
  const bool forbidden = fault.kind == FaultKind::forbidden_access;
  const bool execute = fault.kind == FaultKind::bad_code_address;
  m_context.events.memory_exception(m_context.gpu.id, fault.address, forbidden && fault.access != AccessKind::read, execute);
}

}  // namespace kerncap::softgpu

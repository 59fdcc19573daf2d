// How each step of a capture is done with signals and queues. The session's thread is the only one that waits for the
// device.
#include "hsa/snapshots.hpp"

#include <algorithm>
#include <cstring>

#include "capture/selection.hpp"
#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

namespace messages = capture::messages;
using capture::Allocation;
using capture::Clock;
using capture::FailureCode;
using capture::Limit;
using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::size_t k_unknown_kernarg_bytes = 4080;  // read when the symbol does not tell; the collector cuts it

hsa_signal_t quiet_signal() noexcept {
  // Watched by polling only: no interrupt, no event, cheap enough to be made in the callback.
  hsa_signal_t signal{};
  api().ext.hsa_amd_signal_create_fn(1, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &signal);
  return signal;
}

void destroy(std::initializer_list<hsa_signal_t> signals) noexcept {
  for (const hsa_signal_t signal : signals) {
    if (signal.handle != 0) api().core.hsa_signal_destroy_fn(signal);
  }
}

bool is_zero(hsa_signal_t signal) noexcept { return api().core.hsa_signal_load_scacquire_fn(signal) <= 0; }
void set_zero(hsa_signal_t signal) noexcept { api().core.hsa_signal_store_screlease_fn(signal, 0); }

Job& job_of(capture::Dispatch& dispatch) noexcept { return static_cast<Job&>(dispatch); }
const Job& job_of(const capture::Dispatch& dispatch) noexcept { return static_cast<const Job&>(dispatch); }

std::uint64_t address_of_kernarg(const Job& job) noexcept {
  return reinterpret_cast<std::uint64_t>(job.packet.kernarg_address);
}

}  // namespace

void Snapshots::warn(const char* text) noexcept {
  tool()->channel->send(messages::Note{.text = text});
}

void Snapshots::prepare() noexcept {
  const std::lock_guard lock(m_prepare_mutex);
  if (m_ready || m_failed) return;
  Result<void> ready = m_copier.prepare();
  const auto run = [](void* self) { static_cast<Snapshots*>(self)->m_session.run(); };
  if (ready && !m_thread.start("kc-capture", run, this)) ready = Error{ErrorCode::io, "cannot start a thread"};
  m_ready = ready.ok();
  m_failed = !m_ready;
  if (m_failed) refuse(capture::failure_of(ready.error().code), ready.error().message.c_str());
}

std::optional<std::uint64_t> Snapshots::match(const Kernel& kernel,
                                              const hsa_kernel_dispatch_packet_t& dispatch) noexcept {
  capture::Channel& channel = *tool()->channel;
  const capture::Shape shape{{dispatch.grid_size_x, dispatch.grid_size_y, dispatch.grid_size_z},
                    {dispatch.workgroup_size_x, dispatch.workgroup_size_y, dispatch.workgroup_size_z}};
  const capture::Rule& rule = channel.rules()[kernel.rule];
  const auto number = capture::take(rule, channel.control(), channel.cases(), kernel.rule, shape);
  if (!number || !channel.active() || !m_ready) return std::nullopt;
  return number;
}

void Snapshots::refuse(FailureCode code, const char* reason) noexcept {
  tool()->channel->send(messages::Failed{.capture = capture::k_no_capture, .code = code, .reason = reason});
}

bool Snapshots::begin(Queue& queue, const Kernel& kernel, const hsa_kernel_dispatch_packet_t& dispatch,
                      std::uint64_t index_in_process, std::uint64_t index_of_kernel, std::uint32_t flags,
                      std::array<Packet, 4>& packets) noexcept {
  auto made = std::make_unique<Job>();
  const Job& job = *made;
  for (hsa_signal_t* signal : {&made->reached, &made->go, &made->done, &made->resume, &made->left}) {
    *signal = quiet_signal();
    if (signal->handle == 0) {
      destroy({job.reached, job.go, job.done, job.resume, job.left});
      refuse(FailureCode::device, "the runtime has no signal left");
      return false;
    }
  }
  made->queue = &queue;
  made->kernel = kernel;
  made->packet = dispatch;
  made->index_in_process = index_in_process;
  made->index_of_kernel = index_of_kernel;
  made->flags = flags;
  made->owes_completion = dispatch.completion_signal.handle != 0;
  hsa_kernel_dispatch_packet_t alone = dispatch;
  alone.header = static_cast<std::uint16_t>((dispatch.header & 0xFFu) | k_barrier_bit | k_system_scopes);
  alone.completion_signal = job.done;
  packets = {barrier({}, job.reached), barrier(job.go, {}), to_packet(alone), barrier(job.resume, job.left)};
  std::unique_ptr<capture::Dispatch> given = std::move(made);
  if (m_session.add(given)) return true;
  destroy({job.reached, job.go, job.done, job.resume, job.left});   // it is ours still
  return false;
}

void Snapshots::end() noexcept {
  // Late only where the runtime itself does not answer. Then what we hold goes with it.
  if (m_session.end(capture::k_end_limit) && !m_failed && !m_session.is_broken()) m_copier.end();
}

capture::Progress Snapshots::look(const capture::Dispatch& dispatch) noexcept {
  const Job& job = job_of(dispatch);
  // First: what the device did before the queue was destroyed is then seen below.
  const bool destroyed = job.queue->destroyed.load(std::memory_order_acquire);
  return {.reached = is_zero(job.reached),
          .ended = is_zero(job.done),
          .left = is_zero(job.left),
          .gives_back = job.queue->gone.load(),
          .destroyed = destroyed};
}

// The copier holds signals of the runtime's during a capture only.
Result<void> Snapshots::hold(capture::Dispatch& dispatch, const std::vector<const capture::Dispatch*>& stopped,
                             Limit limit) noexcept {
  const Job& job = job_of(dispatch);
  if (Result<void> armed = m_copier.arm(); !armed) return armed;
  std::vector<const Queue*> at_rest;
  for (const capture::Dispatch* other : stopped) at_rest.push_back(job_of(*other).queue);
  return m_holder.hold(*job.queue, job.resume, at_rest, Clock::now() + limit);
}

Result<void> Snapshots::drain(capture::Dispatch&, Limit limit) noexcept {
  return m_copier.drain(tool()->copies.routes(), Clock::now() + limit);
}

Result<std::uint64_t> Snapshots::copy(capture::Dispatch& dispatch, capture::State state, Limit limit) noexcept {
  StateCopy& copy = *job_of(dispatch).state;
  const Result<void> copied = state == capture::State::pre ? copy.pre() : copy.post();
  if (copied) return copy.copied_bytes();
  if (copied.error().code == ErrorCode::timeout) return copied.error();   // a copy hangs
  // None may be under way when memory goes.
  const Result<void> flushed = m_copier.flush(limit);
  return !flushed && flushed.error().code == ErrorCode::timeout ? flushed.error() : copied.error();
}

Result<void> Snapshots::undisturbed(const capture::Dispatch&, capture::State state) noexcept {
  if (m_holder.still_held()) return {};
  const bool pre = state == capture::State::pre;
  return Error{ErrorCode::timeout, pre ? "another queue went on while the pre-state was copied"
                                       : "another queue went on while the post-state was copied"};
}

void Snapshots::go(capture::Dispatch& dispatch) noexcept { set_zero(job_of(dispatch).go); }

std::uint64_t Snapshots::duration_ns(const capture::Dispatch& dispatch) noexcept {
  const Job& job = job_of(dispatch);
  hsa_amd_profiling_dispatch_time_t time{};
  // Debug builds of ROCr abort where they cannot ask the driver for its clocks. What was captured cannot be sent then.
  if (!tool()->channel->owns_socket()) return 0;
  api().ext.hsa_amd_profiling_get_dispatch_time_fn(tool()->agents.devices()[job.kernel.device].agent, job.done, &time);
  return time.end - time.start;
}

// The program may read the dispatch's times from its own signal.
void Snapshots::complete(capture::Dispatch& dispatch) noexcept {
  const Job& job = job_of(dispatch);
  auto* theirs = reinterpret_cast<amd_signal_t*>(job.packet.completion_signal.handle);
  const auto* ours = reinterpret_cast<const amd_signal_t*>(job.done.handle);
  theirs->start_ts = ours->start_ts;
  theirs->end_ts = ours->end_ts;
  api().core.hsa_signal_subtract_screlease_fn(job.packet.completion_signal, 1);
}

void Snapshots::release(capture::Dispatch& dispatch) noexcept {
  Job& job = job_of(dispatch);
  set_zero(job.resume);
  m_copier.disarm();
  job.state.reset();
}

// Other queues may wait for `resume` still: the holder destroys it.
void Snapshots::give_back(capture::Dispatch& dispatch) noexcept {
  const Job& job = job_of(dispatch);
  destroy({job.reached, job.go, job.done, job.left});
  m_holder.let_go(job.resume);
}

// A program may write to a descriptor after it was loaded: then something else runs than what the code object says.
Result<void> Snapshots::check_descriptor(const Job& job, Limit limit) noexcept {
  if (job.kernel.descriptor == nullptr) return {};
  KernelDescriptor loaded;
  Result<void> read =
      m_copier.read(job.kernel.device, job.packet.kernel_object, loaded.data(), loaded.size(), Clock::now() + limit);
  if (!read) return read;
  if (loaded == *job.kernel.descriptor) return {};
  return Error{ErrorCode::unsupported,
               "the program changed the kernel's descriptor after it was loaded: what runs is not what its code object says"};
}

Result<std::vector<std::byte>> Snapshots::read_kernarg(const Job& job,
                                                       const std::vector<Allocation>& regions, Limit limit) noexcept {
  const std::uint64_t address = address_of_kernarg(job);
  if (address == 0) return std::vector<std::byte>{};
  const Allocation* region = region_at(regions, address);
  if (region == nullptr) {
    return Error{ErrorCode::unsupported, "the kernel's arguments lie in memory that was never seen to be allocated"};
  }
  const std::uint64_t room = region->base + region->bytes - address;
  const std::uint64_t wanted = job.kernel.kernarg_bytes != 0 ? job.kernel.kernarg_bytes : k_unknown_kernarg_bytes;
  std::vector<std::byte> bytes(std::min(room, wanted));
  if (is_host_readable(*region)) {
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(capture::host_address(*region, address)), bytes.size());
    return bytes;
  }
  const std::uint32_t reader = reader_of(*region, job.kernel.device);
  Result<void> read = m_copier.read(reader, address, bytes.data(), bytes.size(), Clock::now() + limit);
  if (!read) return read.error();
  return bytes;
}

Result<void> Snapshots::describe(capture::Dispatch& dispatch, Limit limit) noexcept {
  Job& job = job_of(dispatch);
  std::vector<Allocation> regions = tool()->memory.reachable(job.kernel.device);
  if (Result<void> checked = check_descriptor(job, limit); !checked) return checked;
  Result<std::vector<std::byte>> kernarg = read_kernarg(job, regions, limit);
  if (!kernarg) return kernarg.error();
  const hsa_kernel_dispatch_packet_t& packet = job.packet;
  tool()->channel->send(messages::Capture{
      .capture = job.number,
      .rule = job.kernel.rule,
      .kernel = job.kernel.id,
      .module = job.kernel.module,
      .device = job.kernel.device,
      .queue = job.queue->index,
      .index_in_process = job.index_in_process,
      .index_of_kernel = job.index_of_kernel,
      .grid_work_items = {packet.grid_size_x, packet.grid_size_y, packet.grid_size_z},
      .block_work_items = {packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z},
      .group_bytes = packet.group_segment_size,
      .private_bytes = packet.private_segment_size,
      .kernarg_address = address_of_kernarg(job),
      .flags = job.flags,
      .kernarg = kernarg.value(),
      .packet = std::as_bytes(std::span(&packet, 1)),
  });
  send_regions(*tool()->channel, job.number, regions);
  job.state.emplace(m_copier, job.number, job.kernel, std::move(regions), std::move(kernarg.value()),
                    address_of_kernarg(job), limit);
  return {};
}

}  // namespace kerncap::hsa

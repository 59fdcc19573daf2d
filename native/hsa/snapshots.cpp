// The capture thread. It is the only thread that waits for the device; the queue callback only hands it jobs.
#include "hsa/snapshots.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "capture/selection.hpp"
#include "capture/streams.hpp"
#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

namespace messages = capture::messages;
using capture::Allocation;
using capture::FailureCode;
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

std::uint64_t address_of_kernarg(const Job& job) noexcept {
  return reinterpret_cast<std::uint64_t>(job.dispatch.kernarg_address);
}

FailureCode failure_of(ErrorCode code) noexcept {
  if (code == ErrorCode::timeout) return FailureCode::timeout;
  if (code == ErrorCode::unsupported) return FailureCode::unsupported_memory;
  return FailureCode::device;
}

std::uint64_t ns_since(std::chrono::steady_clock::time_point begin) noexcept {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
}

void send_failure(std::uint64_t capture, FailureCode code, const std::string& reason) noexcept {
  tool()->channel->send(messages::Failed{.capture = capture, .code = code, .reason = reason});
}

// Polls with growing pauses, so that a short kernel is not held for long and a long one costs no CPU.
Result<void> wait_for_zero(hsa_signal_t signal, std::chrono::steady_clock::time_point deadline, const char* what) {
  timespec pause{0, 10'000};
  while (api().core.hsa_signal_load_scacquire_fn(signal) > 0) {
    if (std::chrono::steady_clock::now() > deadline) return Error{ErrorCode::timeout, what};
    if (!tool()->channel->connected()) return Error{ErrorCode::io, "the collector is gone"};
    if (!enabled()) return Error{ErrorCode::io, k_runtime_ends};
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(pause.tv_nsec * 2, 500'000L);
  }
  return {};
}

}  // namespace

Snapshots::Clock::time_point Snapshots::deadline() const noexcept {
  return Clock::now() + tool()->channel->wait_limit();
}

void Snapshots::warn(const char* text) noexcept {
  tool()->channel->send(messages::Note{.text = text});
}

void Snapshots::prepare() noexcept {
  const std::lock_guard lock(m_prepare_mutex);
  if (m_ready || m_broken) return;
  Result<void> ready = m_copier.prepare();
  if (ready && !m_thread.start("kc-capture", [](void* self) { static_cast<Snapshots*>(self)->run(); }, this)) {
    ready = Error{ErrorCode::io, "cannot start a thread"};
  }
  if (!ready) {
    m_broken = true;
    send_failure(capture::k_no_capture, failure_of(ready.error().code), ready.error().message);
  }
  m_ready = ready.ok();
}

std::optional<std::uint64_t> Snapshots::match(const Kernel& kernel,
                                              const hsa_kernel_dispatch_packet_t& dispatch) noexcept {
  capture::Channel& channel = *tool()->channel;
  const capture::Shape shape{{dispatch.grid_size_x, dispatch.grid_size_y, dispatch.grid_size_z},
                    {dispatch.workgroup_size_x, dispatch.workgroup_size_y, dispatch.workgroup_size_z}};
  const auto number = capture::take(channel.rules()[kernel.rule], channel.control(), kernel.rule, shape);
  if (!number || !channel.active() || !m_ready) return std::nullopt;
  return number;
}

void Snapshots::refuse(const Kernel&, FailureCode code, const char* reason) noexcept {
  send_failure(capture::k_no_capture, code, reason);
}

bool Snapshots::begin(Queue& queue, const Kernel& kernel, const hsa_kernel_dispatch_packet_t& dispatch,
                      std::uint64_t index_in_process, std::uint64_t index_of_kernel, std::uint32_t flags,
                      std::array<Packet, 4>& packets) noexcept {
  auto job = std::make_unique<Job>();
  for (hsa_signal_t* signal : {&job->reached, &job->go, &job->done, &job->resume, &job->left}) {
    *signal = quiet_signal();
    if (signal->handle == 0) {
      refuse(kernel, FailureCode::device, "the runtime has no signal left");
      return false;
    }
  }
  job->queue = &queue;
  job->kernel = kernel;
  job->dispatch = dispatch;
  job->index_in_process = index_in_process;
  job->index_of_kernel = index_of_kernel;
  job->flags = flags;
  job->begun = Clock::now();
  job->number = tool()->copies.begin_capture();
  hsa_kernel_dispatch_packet_t alone = dispatch;
  alone.header = static_cast<std::uint16_t>((dispatch.header & 0xFFu) | k_barrier_bit | k_system_scopes);
  alone.completion_signal = job->done;
  packets[0] = barrier({}, job->reached);
  packets[1] = barrier(job->go, {});
  packets[2] = to_packet(alone);
  packets[3] = barrier(job->resume, job->left);
  const std::lock_guard lock(m_mutex);
  m_jobs.push_back(std::move(job));
  m_changed.notify_all();
  return true;
}

bool Snapshots::keep_until_idle(SnapshotKeep keep) noexcept {
  if (!m_window.load(std::memory_order_seq_cst)) return false;
  const std::lock_guard lock(m_mutex);
  if (!m_window.load(std::memory_order_relaxed)) return false;
  m_kept.push_back(keep);
  return true;
}

void Snapshots::wait_until_idle() noexcept {
  if (!m_window.load(std::memory_order_seq_cst)) return;
  std::unique_lock lock(m_mutex);
  m_changed.wait_for(lock, 2 * tool()->channel->wait_limit(), [this] { return !m_window.load(); });
}

void Snapshots::close_window() noexcept {
  std::vector<SnapshotKeep> kept;
  {
    const std::lock_guard lock(m_mutex);
    m_window.store(false, std::memory_order_seq_cst);
    kept.swap(m_kept);
    m_changed.notify_all();
  }
  for (const SnapshotKeep& keep : kept) {
    if (keep.kind == SnapshotKeep::pool_memory) api().ext.hsa_amd_memory_pool_free_fn(keep.pointer);
    if (keep.kind == SnapshotKeep::region_memory) api().core.hsa_memory_free_fn(keep.pointer);
  }
}

void Snapshots::run() noexcept {
  bool expired = false;
  while (std::unique_ptr<Job> job = next_reached(expired)) carry_out(std::move(job), expired);
}

// The first job whose queue has come to it. Not the first that was submitted: that one may wait for another.
std::unique_ptr<Job> Snapshots::next_reached(bool& expired) noexcept {
  timespec pause{0, 10'000};
  std::unique_lock lock(m_mutex);
  while (enabled()) {
    tidy();
    if (m_jobs.empty()) {
      const auto more = [this] { return !m_jobs.empty() || !enabled(); };
      if (m_leaving.empty()) {
        m_changed.wait(lock, more);
      } else if (!m_changed.wait_for(lock, std::chrono::nanoseconds(pause.tv_nsec), more)) {
        pause.tv_nsec = std::min(pause.tv_nsec * 2, 5'000'000L);
        continue;
      }
      pause.tv_nsec = 10'000;
    }
    const auto now = Clock::now();
    for (auto it = m_jobs.begin(); it != m_jobs.end(); ++it) {
      Job& job = **it;
      const bool reached = api().core.hsa_signal_load_scacquire_fn(job.reached) <= 0;
      const auto waits_since = std::max(job.begun, m_last_end);
      const bool late = now - waits_since > tool()->channel->wait_limit() || !tool()->channel->active();
      if (!reached && !late && !job.queue->gone.load()) continue;
      expired = !reached;
      std::unique_ptr<Job> found = std::move(*it);
      m_jobs.erase(it);
      return found;
    }
    lock.unlock();
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(pause.tv_nsec * 2, 500'000L);
    lock.lock();
  }
  return nullptr;
}

void Snapshots::carry_out(std::unique_ptr<Job> job, bool expired) noexcept {
  Result<void> taken = Error{ErrorCode::timeout, "work before the dispatch did not end in time"};
  if (!tool()->channel->active()) {
    taken = Error{ErrorCode::io, "the collector wants no more captures"};
  } else if (!expired && m_broken) {
    taken = Error{ErrorCode::device, "an earlier capture left the copy queue hanging"};
  } else if (!expired) {
    taken = m_copier.arm();
    if (taken) taken = take(*job);
    m_copier.disarm();
  }
  if (tool()->gone.load()) return;
  release(*job);
  if (!taken) send_failure(job->number, failure_of(taken.error().code), taken.error().message);
  const std::lock_guard lock(m_mutex);
  m_last_end = Clock::now();
  m_leaving.push_back(std::move(job));
}

// Lets everything go, in whatever state the capture is. A dispatch that has not ended is waited for by `tidy`:
// the captures behind it need not wait, too.
void Snapshots::release(Job& job) noexcept {
  const auto& core = api().core;
  core.hsa_signal_store_screlease_fn(job.go, 0);
  job.owes_completion = job.dispatch.completion_signal.handle != 0;
  if (job.owes_completion && core.hsa_signal_load_scacquire_fn(job.done) <= 0) give_back_signal(job);
  core.hsa_signal_store_screlease_fn(job.resume, 0);
  close_window();
  tool()->copies.end_capture(job.number);
}

// Under the lock: looks at the dispatches whose captures are over, and gives back what they no longer need.
bool Snapshots::tidy() noexcept {
  std::erase_if(m_leaving, [this](const std::unique_ptr<Job>& job) {
    const auto& core = api().core;
    const bool destroyed = job->queue->destroyed.load(std::memory_order_acquire);
    if (job->owes_completion && core.hsa_signal_load_scacquire_fn(job->done) <= 0) give_back_signal(*job);
    // What the device has not taken of a queue when the program destroys it, it never takes.
    const bool left = !job->owes_completion && core.hsa_signal_load_scacquire_fn(job->left) <= 0;
    if (!left && !destroyed) return false;
    for (const hsa_signal_t signal : {job->reached, job->go, job->done, job->left}) core.hsa_signal_destroy_fn(signal);
    m_holder.let_go(job->resume);
    return true;
  });
  const bool nothing_held = m_holder.tidy();
  return nothing_held && m_leaving.empty();
}

void Snapshots::end() noexcept {
  {
    const std::lock_guard lock(m_mutex);
    m_changed.notify_all();
  }
  // Late only where the runtime itself does not answer. Then what we hold goes with it.
  if (!m_thread.ended(capture::k_end_limit)) return;
  std::deque<std::unique_ptr<Job>> jobs;
  {
    const std::lock_guard lock(m_mutex);
    jobs.swap(m_jobs);
  }
  for (std::unique_ptr<Job>& job : jobs) {
    release(*job);
    m_leaving.push_back(std::move(job));
  }
  stop();
  if (!m_broken) m_copier.end();
}

void Snapshots::stop() noexcept {
  // The last packets of a capture are passed within microseconds of its end, unless a kernel hangs.
  for (int looks = 0; looks < 100; ++looks) {
    {
      const std::lock_guard lock(m_mutex);
      if (tidy()) return;
    }
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

// The program may read the dispatch's times from its own signal.
void Snapshots::give_back_signal(Job& job) noexcept {
  auto* theirs = reinterpret_cast<amd_signal_t*>(job.dispatch.completion_signal.handle);
  const auto* ours = reinterpret_cast<const amd_signal_t*>(job.done.handle);
  theirs->start_ts = ours->start_ts;
  theirs->end_ts = ours->end_ts;
  api().core.hsa_signal_subtract_screlease_fn(job.dispatch.completion_signal, 1);
  job.owes_completion = false;
}

Result<void> Snapshots::take(Job& job) noexcept {
  Tool& state = *tool();
  const auto held_since = Clock::now();
  std::vector<const Queue*> stopped;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& other : m_jobs) {
      if (api().core.hsa_signal_load_scacquire_fn(other->reached) <= 0) stopped.push_back(other->queue);
    }
  }
  if (Result<void> held = m_holder.hold(*job.queue, job.resume, stopped, deadline()); !held) return held;
  if (Result<void> drained = m_copier.drain(state.copies.routes(), deadline()); !drained) return drained;
  const std::uint64_t drain_ns = ns_since(held_since);
  {
    const std::lock_guard lock(m_mutex);
    m_window.store(true, std::memory_order_seq_cst);
  }
  const auto give_up = [this](const Error& error) -> Result<void> {
    m_broken = m_broken || error.code == ErrorCode::timeout;
    return error;
  };
  const std::vector<Allocation> regions = state.memory.reachable(job.kernel.device);
  if (Result<void> checked = check_descriptor(job); !checked) return give_up(checked.error());
  Result<std::vector<std::byte>> kernarg = read_kernarg(job, regions);
  if (!kernarg) return give_up(kernarg.error());
  describe(job, regions, kernarg.value());
  const auto pre_since = Clock::now();
  StateCopy state_copy(m_copier, job.number, job.kernel, regions);
  if (Result<void> copied = state_copy.pre(kernarg.value(), address_of_kernarg(job)); !copied) {
    return give_up(copied.error());
  }
  const std::uint64_t pre_ns = ns_since(pre_since);
  if (!m_holder.still_held()) return Error{ErrorCode::timeout, "another queue went on while the pre-state was copied"};
  const bool with_post = state.channel->with_post();
  const auto cost = [&](std::uint64_t duration_ns, std::uint64_t post_ns) {
    return messages::Cost{.duration_ns = duration_ns,
                          .drain_ns = drain_ns,
                          .pre_copy_ns = pre_ns,
                          .post_copy_ns = post_ns,
                          .held_ns = ns_since(held_since),
                          .copied_bytes = state_copy.copied_bytes()};
  };
  const Error gone{ErrorCode::io, "the collector is gone"};
  if (!with_post) {
    // The kernel may end the program, or never end.
    if (!state.channel->send(messages::Ready{.capture = job.number, .cost = cost(0, 0)})) return gone;
  }

  api().core.hsa_signal_store_screlease_fn(job.go, 0);
  if (Result<void> ran = wait_for_zero(job.done, deadline(), "the kernel did not end in time"); !ran) return ran;
  hsa_amd_profiling_dispatch_time_t time{};
  api().ext.hsa_amd_profiling_get_dispatch_time_fn(state.agents.devices()[job.kernel.device].agent, job.done, &time);
  const auto post_since = Clock::now();
  if (with_post) {
    if (Result<void> copied = state_copy.post(kernarg.value(), address_of_kernarg(job)); !copied) return give_up(copied.error());
    if (!m_holder.still_held()) return Error{ErrorCode::timeout, "another queue went on while the post-state was copied"};
  }
  const messages::Done done{.capture = job.number, .cost = cost(time.end - time.start, ns_since(post_since))};
  if (!state.channel->send(done)) return gone;
  return {};
}

// A program may write to a descriptor after it was loaded: then something else runs than what the code object says.
Result<void> Snapshots::check_descriptor(const Job& job) noexcept {
  if (job.kernel.descriptor == nullptr) return {};
  KernelDescriptor loaded;
  Result<void> read =
      m_copier.read(job.kernel.device, job.dispatch.kernel_object, loaded.data(), loaded.size(), deadline());
  if (!read) return read;
  if (loaded == *job.kernel.descriptor) return {};
  return Error{ErrorCode::unsupported,
               "the program changed the kernel's descriptor after it was loaded: what runs is not what its code object says"};
}

Result<std::vector<std::byte>> Snapshots::read_kernarg(const Job& job,
                                                       const std::vector<Allocation>& regions) noexcept {
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
    const std::uint64_t on_host = region->host != 0 ? region->host + (address - region->base) : address;
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(on_host), bytes.size());
    return bytes;
  }
  const std::uint32_t reader = reader_of(*region, job.kernel.device);
  Result<void> read = m_copier.read(reader, address, bytes.data(), bytes.size(), deadline());
  if (!read) return read.error();
  return bytes;
}

void Snapshots::describe(const Job& job, const std::vector<Allocation>& regions,
                         const std::vector<std::byte>& kernarg) noexcept {
  const hsa_kernel_dispatch_packet_t& packet = job.dispatch;
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
      .kernarg_address = reinterpret_cast<std::uint64_t>(packet.kernarg_address),
      .flags = job.flags,
      .kernarg = kernarg,
      .packet = std::as_bytes(std::span(&packet, 1)),
  });
  send_regions(*tool()->channel, job.number, regions);
}

}  // namespace kerncap::hsa

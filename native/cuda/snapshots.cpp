// How each step of a capture is done with driver calls. What was copied on the device is sent by a thread of ours while
// the program goes on.
#include "cuda/snapshots.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "capture/regions.hpp"
#include "capture/selection.hpp"
#include "capture/streams.hpp"
#include "capture/threads.hpp"
#include "cuda/api.hpp"
#include "cuda/callbacks.hpp"
#include "cuda/counted.hpp"
#include "cuda/endings.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

namespace messages = capture::messages;
using capture::Message;
using capture::StreamKind;
using capture::Up;
using core::Error;
using core::ErrorCode;
using core::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds k_launch_limit{1};
constexpr std::chrono::milliseconds k_look_again{1};

constexpr const char* k_did_not_end =
    "another thread's call that ends a stream, a context or a module, or begins to record a graph, did not end in time";

constexpr const char* k_launched_elsewhere =
    "the kernel, of a library, is launched on a stream of another GPU than the current one: make the stream's context current, or its "
    "GPU (cudaSetDevice), before the launch";

constexpr const char* k_launched_as_in_cuda_3 =
    "the kernel is launched by cuLaunch, cuLaunchGrid or cuLaunchGridAsync, whose parameters the driver does not tell: launch it by "
    "cuLaunchKernel";

// Between enter() and leave().
thread_local Job* t_job = nullptr;

Job& job_of(capture::Dispatch& dispatch) noexcept { return static_cast<Job&>(dispatch); }
const Job& job_of(const capture::Dispatch& dispatch) noexcept { return static_cast<const Job&>(dispatch); }

}  // namespace

Clock::time_point Snapshots::wait_deadline() noexcept { return Clock::now() + tool()->channel->wait_limit(); }

void Snapshots::refuse(const std::string& reason) noexcept {
  tool()->channel->send(messages::Failed{
      .capture = capture::k_no_capture, .code = capture::failure_of(ErrorCode::unsupported), .reason = reason});
  dismiss();
}

std::shared_ptr<Engines> Snapshots::engines_of(CUcontext context) noexcept {
  const std::lock_guard lock(m_mutex);
  std::shared_ptr<Engines>& engines = m_engines[context];
  if (engines == nullptr) engines = std::make_shared<Engines>();
  return engines;
}

// The driver destroys what was made in the context, and may give its number to another one.
void Snapshots::forget(CUcontext context) noexcept {
  const std::lock_guard lock(m_mutex);
  m_engines.erase(context);
}

void Snapshots::begin(Job& job) noexcept {
  step_out();   // who holds the window now, or is before us, does not wait for this call
  m_window_mutex.lock();
  let_waiters_go_first();
  this_thread().holds_window = true;
  job.number = m_next_number++;
}

void Snapshots::end(std::unique_ptr<Job> job, const Result<void>& taken) noexcept {
  if (taken) {
    close_window();
    return pass_on(std::move(job));
  }
  m_collector.failed(*job, taken.error());
  release(*job);
  close_window();
  dismiss();
}

bool Snapshots::wanted(const Kernel& kernel, const LaunchCall& launch, std::optional<std::uint64_t>& number) noexcept {
  capture::Channel& channel = *tool()->channel;
  capture::Shape shape{};
  for (int axis = 0; axis < 3; ++axis) {
    shape.grid_work_items[axis] = std::uint64_t{launch.grid_blocks[axis]} * launch.block[axis];
    shape.block[axis] = launch.block[axis];
  }
  // Said before it is counted: once the last dispatch has been, our thread may think that all is done.
  m_begun.fetch_add(1);
  const capture::Rule& rule = channel.rules()[kernel.rule];
  number = capture::count(rule, channel.control(), kernel.rule, shape);
  if (number && capture::wants(rule, *number) && channel.active()) return true;
  m_begun.fetch_sub(1);
  return false;
}

void Snapshots::enter(const Kernel& kernel, const LaunchCall& launch, CUcontext context, std::uint64_t& counted) noexcept {
  if (is_recording(launch.stream)) return;  // becomes a node of a graph: nothing runs now
  std::optional<std::uint64_t> number;
  const bool is_wanted = wanted(kernel, launch, number);
  if (number) counted = counted_as(kernel.rule, *number);
  if (!is_wanted) return;
  const RelaxedMode relaxed;
  const char* refusal = nullptr;
  if (!kernel.is_certain) refusal = k_one_of_several;
  if (launch.is_of_cuda_3) refusal = k_launched_as_in_cuda_3;
  if (kernel.is_of_library() && !tool()->streams.is_of_current_device(launch.stream)) refusal = k_launched_elsewhere;
  if (refusal != nullptr) return refuse(refusal);
  send_facts();
  auto job = std::make_unique<Job>();
  job->kernel = kernel;
  job->context = context;
  job->stream = launch.stream;
  job->launch = &launch;
  job->index_of_kernel = *number;
  begin(*job);
  Result<void> taken = m_course.hold(*job, {});
  if (taken) taken = m_course.before(*job);
  if (taken) {
    // For the time only: streams of green contexts take no events of others.
    driver().cuEventRecord(job->before, job->stream);
    t_job = job.release();
    return;
  }
  end(std::move(job), taken);
  begin_call(UnderWay::launch);
}

void Snapshots::uncount(std::uint64_t counted) noexcept {
  m_own.launches.fetch_sub(1, std::memory_order_relaxed);
  const std::uint64_t rule = counted >> k_counted_shift;
  // Where the call's entry was not shown to us, anything may stand there.
  if (rule == 0 || rule > tool()->channel->rules().size()) return;
  const std::uint64_t number = counted & ((std::uint64_t{1} << k_counted_shift) - 1);
  capture::uncount(tool()->channel->control().matched[rule - 1], number);
}

Result<void> Snapshots::hold(capture::Dispatch& dispatch, const std::vector<const capture::Dispatch*>&, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  job.engines = engines_of(job.context);
  open_window();
  if (!job.from_graph) return {};
  Result<CUgraphExec> before = instantiate_before(*job.from_graph->graph, job.from_graph->node);
  if (!before) return before.error();
  job.from_graph->before = before.value();
  return {};
}

Result<void> Snapshots::drain(capture::Dispatch& dispatch, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  CUdevice device = 0;
  if (Result<void> asked = checked("cuCtxGetDevice", driver().cuCtxGetDevice(&device)); !asked) return asked;
  job.device = static_cast<std::uint32_t>(device);
  Result<std::vector<std::byte>> parameters = pack_parameters(job.kernel.function, *job.launch);
  if (!parameters) return parameters.error();
  job.parameters = std::move(parameters.value());
  return settle(job);
}

Result<void> Snapshots::describe(capture::Dispatch& dispatch, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  // Not before the device has come to rest: where it does not, calls that make something may wait for ever.
  if (Result<void> ready = job.engines->copier.prepare(); !ready) return ready;
  if (Result<void> listed = list_regions(job); !listed) return listed;
  if (Result<void> rested = wait_for_other_gpus(job); !rested) return rested;
  if (Result<void> fine = refuse_unreachable(job); !fine) return fine;
  for (const Allocation& region : job.regions) job.cost.copied_bytes += region.bytes;
  if (Result<void> described = describe_to_collector(job); !described) return described;
  for (CUevent* event : {&job.before, &job.after}) {
    if (Result<void> made = checked("creating an event", driver().cuEventCreate(event, CU_EVENT_DEFAULT)); !made) {
      return made;
    }
  }
  return {};
}

Result<void> Snapshots::settle(const Job& job) noexcept {
  const auto deadline = wait_deadline();
  // A call that was past its callback when the window opened is counted, or changes nothing that is captured: see calls_under_way.cpp.
  constexpr std::chrono::microseconds k_look_every{30};
  while (m_own.ending.load(std::memory_order_seq_cst) != 0) {
    if (Clock::now() > deadline) return Error{ErrorCode::timeout, k_did_not_end};
    std::this_thread::sleep_for(k_look_every);
  }
  if (Result<void> drained = tool()->streams.drain(job.device, deadline); !drained) return drained;
  // A launch that does not return though this device is at rest loads its kernel, or waits for another device, whose queue is full, and
  // maybe for what is captured.
  const bool may_be_stuck = tool()->streams.has_others(job.device);
  const auto launched = std::min(deadline, Clock::now() + k_launch_limit);
  for (;;) {
    const bool is_copying = m_own.copying.load(std::memory_order_seq_cst) != 0;
    const bool is_launching = m_own.launching.load(std::memory_order_seq_cst) != 0;
    m_has_stuck = is_launching && may_be_stuck && Clock::now() >= launched;
    if (!is_copying && (!is_launching || m_has_stuck)) break;
    if (Clock::now() > deadline) {
      return Error{ErrorCode::timeout, is_copying ? "a copy from or to the host did not end in time" : "another thread's launch did not end in time"};
    }
    std::this_thread::sleep_for(k_look_every);
  }
  m_device.store(job.device);
  m_is_settled.store(true);   // before the device is drained once more: of what is submitted then, one of both tells
  return tool()->streams.drain(job.device, deadline);
}

Result<std::uint64_t> Snapshots::copy(capture::Dispatch& dispatch, capture::State state, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  Copier& copier = job.engines->copier;
  Result<void> copied;
  if (state == capture::State::pre) {
    // Without a post-state everything is sent before the kernel runs: it may break the context, or never end.
    if (tool()->channel->with_post()) job.pre = copier.allocate(Copier::layout(job.regions).back());
    copied = job.pre != 0 ? copier.gather(job.regions, job.pre, wait_deadline()) : send_live(copier, job, StreamKind::pre);
  } else {
    copied = job.pre != 0 ? keep_changed(job) : send_live(copier, job, StreamKind::post);
  }
  if (!copied) return copied.error();
  return job.cost.copied_bytes;
}

// Where there is a post-state, who has gone on beside the pre-state is found once the kernel has run.
Result<void> Snapshots::undisturbed(const capture::Dispatch&, capture::State state) noexcept {
  if (state == capture::State::pre && tool()->channel->with_post()) return {};
  return was_undisturbed();
}

bool Snapshots::holding() const noexcept { return this_thread().holds_window; }

void Snapshots::leave(CUresult status) noexcept {
  if (!holding()) return;
  std::unique_ptr<Job> job(t_job);
  t_job = nullptr;
  if (job == nullptr) {
    close_window();
    return;
  }
  const RelaxedMode relaxed;
  Result<void> taken = wait_for_kernel(*job, status);
  if (taken) taken = m_course.after(*job);
  end(std::move(job), taken);
}

Result<void> Snapshots::wait_for_kernel(Job& job, CUresult status) noexcept {
  if (Result<void> launched = checked("the launch", status); !launched) return launched;
  // Since we gave up, no thread has stood aside.
  if (!m_own.enabled.load()) return Error{ErrorCode::no_space, "the process may have no more host memory"};
  if (tool()->channel->with_post()) {
    if (Result<void> fine = was_undisturbed(); !fine) return fine;
  }
  driver().cuEventRecord(job.after, job.stream);
  Result<void> ran = tool()->streams.drain(job.device, wait_deadline());
  if (ran || ran.error().code != ErrorCode::timeout) return ran;
  return Error{ErrorCode::timeout, "the kernel did not end in time"};
}

std::uint64_t Snapshots::duration_ns(const capture::Dispatch& dispatch) noexcept {
  const Job& job = job_of(dispatch);
  float milliseconds = 0;
  if (driver().cuEventElapsedTime(&milliseconds, job.before, job.after) != CUDA_SUCCESS) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
}

Result<void> Snapshots::describe_to_collector(const Job& job) noexcept {
  const LaunchCall& launch = *job.launch;
  const std::string attributes = describe_attributes(job.kernel.function, launch);
  messages::Capture begun{
      .capture = job.number,
      .rule = job.kernel.rule,
      .kernel = job.kernel.id,
      .module = job.kernel.module,
      .device = job.device,
      .queue = tool()->streams.index_of(job.stream),
      .index_in_process = m_own.launches.load(),
      .index_of_kernel = job.index_of_kernel,
      .block_work_items = std::to_array(launch.block),
      .group_bytes = launch.dynamic_shared_bytes,
      .flags = (launch.cooperative ? capture::k_capture_cooperative : 0) |
               (job.from_graph ? capture::k_capture_from_batch : 0),
      .kernarg = job.parameters,
      .packet = std::as_bytes(std::span(attributes)),
  };
  for (std::size_t axis = 0; axis < 3; ++axis) {
    begun.grid_work_items[axis] = std::uint64_t{launch.grid_blocks[axis]} * launch.block[axis];
  }
  Message message(Up::capture);
  begun.write(message);
  if (!message.ok()) return Error{ErrorCode::unsupported, "the kernel has more parameters than a capture can hold"};
  if (!tool()->channel->send(message)) return Error{ErrorCode::io, "the collector is gone"};
  const std::uint64_t devices = (std::uint64_t{1} << tool()->device_count) - 1;   // at most 63 of them
  send_regions(*tool()->channel, job.number, job.regions, devices);
  return send_images(job);
}

void Snapshots::make_room(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t k_margin_bytes = 64ull << 20;   // of granules, and of the driver's own
  if (bytes == 0 || !is_sending()) return;
  const Inside inside;
  const RelaxedMode relaxed;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  if (driver().cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS && free_bytes < bytes + k_margin_bytes) finish();
}

void Snapshots::release(Job& job) noexcept {
  job.engines->copier.free(job.pre);
  job.engines->copier.free(job.post);
  job.pre = job.post = 0;
  for (CUevent event : {job.before, job.after}) {
    if (event != nullptr) driver().cuEventDestroy_v2(event);
  }
}

// False where the process may have no more threads.
bool Snapshots::start_thread() noexcept {
  try {
    const capture::NoSignals of_the_program;
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  // Handlers run in reverse order, and the driver makes its own when it has started: these have to come after.
  constexpr auto k_finish = [] {
    tool()->leaving.program_ends();
    tool()->snapshots.finish();
  };
  std::atexit(k_finish);
  std::at_quick_exit(k_finish);
  return true;
}

void Snapshots::pass_on(std::unique_ptr<Job> job) noexcept {
  {
    const std::lock_guard lock(m_mutex);
    if (!m_started) m_started = start_thread();
    if (!job->is_sent) hold_endings(true);
    ++m_unsent;
    m_begun.fetch_sub(1);
    if (m_started) m_taken.push_back(std::move(job));
    m_changed.notify_all();
  }
  if (job != nullptr) deliver(std::move(job));
}

void Snapshots::dismiss() noexcept {
  const std::lock_guard lock(m_mutex);
  if (!m_started) m_started = start_thread();
  m_begun.fetch_sub(1);
  m_has_dismissed = true;
  m_changed.notify_all();
}

void Snapshots::deliver(std::unique_ptr<Job> job) noexcept {
  driver().cuCtxSetCurrent(job->context);
  if (!job->is_sent) {
    Result<void> sent = send(job->engines->sender, *job);
    if (sent && !m_collector.done(*job)) sent = Error{ErrorCode::io, "the collector is gone"};
    if (!sent) m_collector.failed(*job, sent.error());
  }
  release(*job);
  const std::lock_guard lock(m_mutex);
  if (--m_unsent == 0) hold_endings(false);
  m_changed.notify_all();
}

void Snapshots::run() noexcept {
  pthread_setname_np(pthread_self(), "kc-capture");
  const Inside inside;
  const RelaxedMode relaxed;
  for (;;) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(m_mutex);
      const auto has_come = [this] { return !m_taken.empty() || m_has_dismissed; };
      // Nobody says so when a launch that was only counted, and stood in the way of leaving, has gone on.
      if (all_taken()) {
        m_changed.wait_for(lock, k_look_again, has_come);
      } else {
        m_changed.wait(lock, has_come);
      }
      m_has_dismissed = false;
      if (!m_taken.empty()) {
        job = std::move(m_taken.front());
        m_taken.pop_front();
      }
    }
    if (job != nullptr) deliver(std::move(job));
    // Nothing is wanted any more: from here on the program runs as if we were not there.
    if (all_taken() && is_idle()) {
      tool()->leaving.leave();
      return;
    }
  }
}

// No dispatch is being taken or waits to be sent. Asked after all_taken(): a dispatch that was counted there is begun
// here, or has been handed over.
bool Snapshots::is_idle() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (m_begun.load() != 0) return false;
  const std::lock_guard lock(m_mutex);
  return m_unsent == 0;
}

// Every rule has seen the last of the dispatches that it wants.
bool Snapshots::all_taken() noexcept {
  capture::Channel& channel = *tool()->channel;
  const auto rules = channel.rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!capture::is_over(rules[i], channel.control().matched[i].load(std::memory_order_relaxed))) return false;
  }
  return true;
}

// Not in a child, where nobody sends and nobody would ever unlock what was locked then.
bool Snapshots::is_sending() const noexcept {
  return m_own.is_ours.load() && m_unsent.load() != 0 && tool()->channel->connected();
}

void Snapshots::finish() noexcept {
  if (!is_sending()) return;
  const Inside inside;
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [this] { return !is_sending(); });
}

}  // namespace kerncap::cuda

// How each step of a capture is done with driver calls.
#include "cuda/snapshots.hpp"

#include "capture/regions.hpp"
#include "capture/selection.hpp"
#include "capture/streams.hpp"
#include "cuda/api.hpp"
#include "cuda/counted.hpp"
#include "cuda/states.hpp"
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

// What the driver compiled the kernel from, where that was not machine code.
Result<void> send_images(const Job& job) noexcept {
  const Kernel& kernel = job.kernel;
  const std::vector<Bytes> images = tool()->images.of(kernel.launched, kernel.function, kernel.handle);
  for (std::size_t i = 0; i < images.size(); ++i) {
    Result<void> sent = capture::send_stream(*tool()->channel, StreamKind::image, job.number, i, images[i]);
    if (!sent) return sent;
  }
  return {};
}

}  // namespace

void Snapshots::refuse(const std::string& reason) noexcept {
  tool()->channel->send(messages::Failed{
      .capture = capture::k_no_capture, .code = capture::failure_of(ErrorCode::unsupported), .reason = reason});
  m_sender.dismiss();
}

std::shared_ptr<Engines> Snapshots::engines_of(CUcontext context) noexcept {
  const std::lock_guard lock(m_engines_mutex);
  std::shared_ptr<Engines>& engines = m_engines[context];
  if (engines == nullptr) engines = std::make_shared<Engines>();
  return engines;
}

// The driver destroys what was made in the context, and may give its number to another one.
void Snapshots::forget(CUcontext context) noexcept {
  const std::lock_guard lock(m_engines_mutex);
  m_engines.erase(context);
}

void Snapshots::begin(Job& job) noexcept {
  m_window.wait_for_turn();
  job.number = m_next_number++;
}

void Snapshots::end(std::unique_ptr<Job> job, const Result<void>& taken) noexcept {
  if (taken) {
    m_window.close();
    return m_sender.take(std::move(job));
  }
  m_collector.failed(*job, taken.error());
  Sender::release(*job, job->engines->copier);
  m_window.close();
  m_sender.dismiss();
}

bool Snapshots::wanted(const Kernel& kernel, const LaunchCall& launch, std::optional<std::uint64_t>& number) noexcept {
  capture::Channel& channel = *tool()->channel;
  capture::Shape shape{};
  for (int axis = 0; axis < 3; ++axis) {
    shape.grid_work_items[axis] = std::uint64_t{launch.grid_blocks[axis]} * launch.block[axis];
    shape.block[axis] = launch.block[axis];
  }
  // Said before it is counted: once the last dispatch has been, our thread may think that all is done.
  m_sender.begin();
  const capture::Rule& rule = channel.rules()[kernel.rule];
  number = capture::count(rule, channel.control(), channel.cases(), kernel.rule, shape);
  if (number && capture::wants(rule, *number) && channel.active()) return true;
  m_sender.not_wanted();
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
  m_window.begin_call(UnderWay::launch);
}

void Snapshots::uncount(std::uint64_t counted) noexcept {
  m_own.launches.fetch_sub(1, std::memory_order_relaxed);
  const std::uint64_t rule = counted >> k_counted_shift;
  // Where the call's entry was not shown to us, anything may stand there.
  if (rule == 0 || rule > tool()->channel->rules().size()) return;
  const std::uint64_t number = counted & ((std::uint64_t{1} << k_counted_shift) - 1);
  capture::Channel& channel = *tool()->channel;
  std::atomic<std::uint64_t>& matched = channel.control().matched[rule - 1];
  if (capture::uncount(matched, number)) channel.cases().give_back(rule - 1);
}

Result<void> Snapshots::hold(capture::Dispatch& dispatch, const std::vector<const capture::Dispatch*>&, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  job.engines = engines_of(job.context);
  m_window.open();
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
  return m_window.settle(job.device);
}

Result<void> Snapshots::describe(capture::Dispatch& dispatch, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  // Not before the device has come to rest: where it does not, calls that make something may wait for ever.
  if (Result<void> ready = job.engines->copier.prepare(); !ready) return ready;
  if (Result<void> listed = m_reach.list(job, m_window.has_stuck()); !listed) return listed;
  for (const Allocation& region : job.regions) job.cost.copied_bytes += region.bytes;
  if (Result<void> described = tell_of(job); !described) return described;
  for (CUevent* event : {&job.before, &job.after}) {
    if (Result<void> made = checked("creating an event", driver().cuEventCreate(event, CU_EVENT_DEFAULT)); !made) {
      return made;
    }
  }
  return {};
}

Result<std::uint64_t> Snapshots::copy(capture::Dispatch& dispatch, capture::State state, capture::Limit) noexcept {
  Job& job = job_of(dispatch);
  Copier& copier = job.engines->copier;
  Result<void> copied;
  if (state == capture::State::pre) {
    // Without a post-state everything is sent before the kernel runs: it may break the context, or never end.
    if (tool()->channel->with_post()) job.pre = copier.allocate(Copier::layout(job.regions).back());
    copied = job.pre != 0 ? copier.gather(job.regions, job.pre, wait_deadline()) : send_live(job, StreamKind::pre, m_window);
  } else {
    copied = job.pre != 0 ? keep_changed(job, m_window) : send_live(job, StreamKind::post, m_window);
  }
  if (!copied) return copied.error();
  return job.cost.copied_bytes;
}

// Where there is a post-state, who has gone on beside the pre-state is found once the kernel has run.
Result<void> Snapshots::undisturbed(const capture::Dispatch&, capture::State state) noexcept {
  if (state == capture::State::pre && tool()->channel->with_post()) return {};
  return m_window.was_undisturbed();
}

bool Snapshots::holding() const noexcept { return this_thread().holds_window; }

void Snapshots::leave(CUresult status) noexcept {
  if (!holding()) return;
  std::unique_ptr<Job> job(t_job);
  t_job = nullptr;
  if (job == nullptr) {
    m_window.close();
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
    if (Result<void> fine = m_window.was_undisturbed(); !fine) return fine;
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

// At the end of the window, where it takes next to no time. The rest is sent by our thread.
Result<bool> Snapshots::hand_over(capture::Dispatch& dispatch) noexcept {
  Job& job = job_of(dispatch);
  const bool is_held = (tool()->channel->flags() & capture::k_welcome_hold) != 0;
  if (!is_small(job) && !is_held) return false;
  if (Result<void> sent = send_kept(job.engines->copier, job); !sent) return sent.error();
  job.is_sent = true;
  return true;
}

Result<void> Snapshots::tell_of(const Job& job) noexcept {
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

}  // namespace kerncap::cuda

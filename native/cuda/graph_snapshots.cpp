// Captures a kernel out of a graph. The launch of a graph cannot be stopped half-way, so the way to the kernel is
// gone twice: all state is kept, the nodes before the kernel and then the kernel alone are run by us, and the state is
// put back before the program's own launch goes on as if nothing had happened (docs/decisions/0021).
#include <string>
#include <vector>

#include "cuda/api.hpp"
#include "cuda/graph_effects.hpp"
#include "cuda/polling.hpp"
#include "cuda/snapshots.hpp"
#include "cuda/states.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {

using core::Error;
using core::ErrorCode;
using core::Result;

namespace {

Result<void> wait_for(CUstream stream, Deadline deadline, const std::string& what) noexcept {
  const CUresult status = poll(stream, deadline);
  if (status != CUDA_ERROR_NOT_READY) return checked(what, status);
  return Error{ErrorCode::timeout, what + " did not end in time: does it wait for something that the program does once it "
                                          "has launched the graph, or for another GPU?"};
}

Result<void> run_alone(const LaunchCall& launch, CUstream stream) noexcept {
  std::vector<CUlaunchAttribute> attributes(launch.attributes.begin(), launch.attributes.end());   // the driver wants to write there
  CUlaunchConfig config{};
  config.gridDimX = launch.grid_blocks[0];
  config.gridDimY = launch.grid_blocks[1];
  config.gridDimZ = launch.grid_blocks[2];
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.dynamic_shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return checked("launching the kernel alone",
                 driver().cuLaunchKernelEx(&config, launch.function, launch.parameters, launch.extra));
}

}  // namespace

void Snapshots::enter_graph(CUgraphExec executable, CUstream stream, CUcontext context) noexcept {
  const std::shared_ptr<WatchedGraph> graph = tool()->graphs.find(executable);
  if (graph == nullptr || is_recording(stream)) return;
  for (const WatchedGraph::Wanted& item : graph->wanted) {
    std::optional<std::uint64_t> number;
    if (!wanted(item.kernel, item.shape, number)) continue;
    const RelaxedMode relaxed;
    send_facts();
    std::string refusal = item.kernel.is_certain ? item.refusal : k_one_of_several;
    if (graph->was_changed) {
      refusal = "it is in a CUDA graph that was changed, or had nodes switched off or on, after it had been made executable";
    }
    Result<LaunchCall> read = LaunchCall{};
    if (refusal.empty()) read = read_kernel_node(graph->nodes[item.node].node);
    if (refusal.empty() && !read) refusal = read.error().message;
    if (!refusal.empty()) {
      refuse(refusal);
      continue;
    }
    LaunchCall launch = read.value();
    const std::vector<CUlaunchAttribute> attributes = attributes_of(graph->nodes[item.node].node);
    give_attributes(attributes, launch);
    auto job = std::make_unique<Job>();
    job->kernel = item.kernel;
    job->context = context;
    job->launch = &launch;
    job->index_of_kernel = *number;
    job->from_graph = FromGraph{.graph = graph.get(), .node = item.node};
    begin(*job);
    Result<void> taken = m_course.hold(*job, {});
    if (taken) taken = take_from_graph(*job);
    if (!m_own.enabled.load()) {
      // No thread has stood aside since then.
      warn("the process may have no more host memory: what its threads did beside a kernel of a CUDA graph may have been undone");
      taken = Error{ErrorCode::no_space, "the process may have no more host memory"};
    }
    if (taken) taken = m_course.finish(*job);
    if (job->from_graph->before != nullptr) driver().cuGraphExecDestroy(job->from_graph->before);
    end(std::move(job), taken);
    m_window.begin_call(UnderWay::launch);
  }
}

Result<void> Snapshots::take_from_graph(Job& job) noexcept {
  if (Result<void> described = describe(job, tool()->channel->wait_limit()); !described) return described;
  if (m_window.has_stuck()) {
    return Error{ErrorCode::timeout, "another thread's launch did not end in time, and what it submits would be undone with what a "
                                     "capture of a kernel in a CUDA graph does"};
  }
  const Result<std::vector<PutBack>> how = how_to_put_back(*job.from_graph->graph, job.from_graph->node, job.regions, job.device);
  if (!how) return how.error();
  // What has been done twice cannot be put back without it.
  if (Result<void> compiled = job.engines->changed.prepare(); !compiled) return compiled;
  const std::uint64_t room = Copier::layout(job.regions).back();
  Copier& copier = job.engines->copier;
  const CUdeviceptr kept = copier.allocate(room);
  job.pre = kept == 0 ? 0 : copier.allocate(room);
  if (kept == 0 || job.pre == 0) {
    copier.free(kept);
    return Error{ErrorCode::unsupported,
                 "a kernel in a CUDA graph needs " + std::to_string(2 * room >> 20) +
                     " MiB of free device memory to be captured, and there is less"};
  }
  // Other GPUs may be writing memory that this one reaches.
  Result<void> done = tool()->streams.drain_all(wait_deadline());
  if (done) done = m_window.begin_undoing();
  if (done) done = copier.gather(job.regions, kept, wait_deadline());
  if (!done) {
    m_window.end_undoing();
    copier.free(kept);
    return done;
  }
  job.stream = copier.stream();
  done = run_to_kernel(job);
  if (!done && driver().cuStreamQuery(job.stream) == CUDA_ERROR_NOT_READY) {
    // What runs may end once the program is let go, and not before. Nothing can be put back under it, and to free memory
    // waits for it: the copies stay.
    job.pre = 0;
    m_window.end_undoing();
    warn("what had been begun of a CUDA graph goes on beside the program, whose results may be wrong");
    return done;
  }
  const Result<void> restored = put_back(job.regions, kept, how.value(), copier, job.engines->changed);
  m_window.end_undoing();
  copier.free(kept);
  if (!restored) warn("the program's memory could not be put back after a kernel of a graph had been captured: its "
                      "results may be wrong");
  if (done) done = restored;
  if (!done || tool()->channel->with_post()) return done;
  // The kernel may break the context, or never end: what is wanted of it has been taken, and is sent before the program's own runs.
  done = send_kept(copier, job);
  if (done && !m_collector.ready(job)) return Error{ErrorCode::io, "the collector is gone"};
  return done;
}

Result<void> Snapshots::run_to_kernel(Job& job) noexcept {
  Copier& copier = job.engines->copier;
  Result<void> done = checked("running the nodes before the kernel", driver().cuGraphLaunch(job.from_graph->before, job.stream));
  if (done) done = wait_for(job.stream, wait_deadline(), "what a CUDA graph runs before the kernel");
  if (done) done = copier.gather(job.regions, job.pre, wait_deadline());
  job.cost.held_ns = capture::ns_since(job.held_since);
  if (!done || !tool()->channel->with_post()) return done;
  done = checked("recording an event", driver().cuEventRecord(job.before, job.stream));
  if (done) done = run_alone(*job.launch, job.stream);
  if (done) done = checked("recording an event", driver().cuEventRecord(job.after, job.stream));
  if (done) done = wait_for(job.stream, wait_deadline(), "the kernel");
  if (!done) return done;
  job.cost.duration_ns = duration_ns(job);
  return keep_changed(job, m_window);
}

}  // namespace kerncap::cuda

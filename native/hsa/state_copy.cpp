// Copies the regions of a capture while its dispatch is held.
#include "hsa/state_copy.hpp"

#include "capture/reach.hpp"
#include "capture/regions.hpp"
#include "capture/streams.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {

using capture::Allocation;
using capture::Look;
using capture::ReachScan;
using capture::StreamKind;
using core::Result;

StateCopy::StateCopy(Copier& copier, std::uint64_t capture, const Kernel& kernel, std::vector<Allocation> regions,
                     std::vector<std::byte> kernarg, std::uint64_t kernarg_address, std::chrono::milliseconds limit)
    : m_copier(copier), m_capture(capture), m_kernel(kernel), m_regions(std::move(regions)),
      m_kernarg(std::move(kernarg)), m_kernarg_address(kernarg_address), m_limit(limit),
      m_taken(m_regions.size(), true), m_unchanged(m_regions.size(), false) {}

Result<void> StateCopy::pre() noexcept {
  const bool in_reach = (tool()->channel->flags() & capture::k_welcome_reachable) != 0;
  Result<void> sent = in_reach ? pre_in_reach() : send_all(StreamKind::pre);
  if (!sent) return sent;
  for (std::size_t i = 0; i < m_regions.size(); ++i) {
    if (m_taken[i]) m_copied_bytes += m_regions[i].bytes;
  }
  return {};
}

Result<void> StateCopy::post() noexcept {
  // Where the runtime keeps arguments, also those of dispatches that came while this one ran. The kind of memory does not
  // tell: HIP takes ordinary host memory for it, or, where the processor reaches all of a device's, device memory.
  std::vector<std::uint64_t> arguments = tool()->arguments.all();
  arguments.push_back(m_kernarg_address);
  for (const std::uint64_t address : arguments) {
    const Allocation* region = region_at(m_regions, address);
    if (region == nullptr) continue;
    const auto index = static_cast<std::size_t>(region - m_regions.data());
    m_unchanged[index] = !points_into(m_kernarg, *region);
  }
  return send_all(StreamKind::post);
}

Result<void> StateCopy::send(StreamKind kind, std::size_t index, const Look* look) noexcept {
  const Allocation& region = m_regions[index];
  if (is_host_readable(region)) {
    const auto goes_on = [] { return !tool()->snapshots.session().is_overtaken(); };
    return send_host_region(*tool()->channel, kind, m_capture, index, region, look != nullptr ? *look : Look{}, goes_on);
  }
  const std::uint32_t stream = capture::open_stream(*tool()->channel, kind, m_capture, index, region.bytes);
  return m_copier.send(stream, region, reader_of(region, m_kernel.device), m_limit, look);
}

Result<void> StateCopy::send_all(StreamKind kind) noexcept {
  // Host memory as close to the kernel as can be, last before it and first after it: the program's threads go on.
  const bool post = kind == StreamKind::post;
  for (const bool on_host : {post, !post}) {
    for (std::size_t i = 0; i < m_regions.size(); ++i) {
      if (!m_taken[i] || is_host_readable(m_regions[i]) != on_host) continue;
      const Result<void> sent =
          post && m_unchanged[i] ? capture::send_unchanged(*tool()->channel, m_capture, i, m_regions[i].bytes)
                                 : send(kind, i, nullptr);
      if (!sent) return sent;
    }
    if (Result<void> flushed = m_copier.flush(m_limit); !flushed) return flushed;
  }
  return {};
}

// From region to region along the addresses that they hold, each looked at on its way to the collector.
Result<void> StateCopy::pre_in_reach() noexcept {
  ReachScan scan(m_regions);
  const Look look = [&scan](std::span<const std::byte> bytes) { scan.look_at_memory(bytes); };
  for (std::size_t i = 0; i < m_regions.size(); ++i) {
    const Allocation& region = m_regions[i];
    // Code reaches the data of its own code object without an address in memory.
    const bool own_data = region.kind == capture::MemoryKind::code_object && region.module == m_kernel.module;
    if (own_data) scan.add_root(i);
    m_taken[i] = false;
  }
  scan.look_at_arguments(m_kernarg);
  for (;;) {
    while (const auto index = scan.next()) {
      if (m_taken[*index]) continue;
      m_taken[*index] = true;
      if (Result<void> sent = send(StreamKind::pre, *index, &look); !sent) return sent;
    }
    // What is still on its way may lead further.
    const std::uint64_t before = scan.found();
    if (Result<void> flushed = m_copier.flush(m_limit); !flushed) return flushed;
    if (scan.found() == before) break;
  }
  // Kernarg memory is shared by many dispatches: what lies beside these arguments leads to what others use, so
  // its words count only where the arguments themselves point there.
  const Allocation* arguments = region_at(m_regions, m_kernarg_address);
  if (arguments == nullptr) return {};
  const auto index = static_cast<std::size_t>(arguments - m_regions.data());
  if (m_taken[index]) return {};
  m_taken[index] = true;
  if (Result<void> sent = send(StreamKind::pre, index, nullptr); !sent) return sent;
  return m_copier.flush(m_limit);
}

}  // namespace kerncap::hsa

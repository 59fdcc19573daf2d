#include "softgpu/device/gpu_memory.hpp"

#include <algorithm>

namespace kerncap::softgpu {
namespace {

void fill_elements(std::byte* to, std::uint32_t pattern, unsigned element_bytes, std::uint64_t size_bytes) {
  if (element_bytes == 1) {
    std::memset(to, static_cast<int>(pattern & 0xFF), size_bytes);
    return;
  }
  for (std::uint64_t at = 0; at < size_bytes; at += element_bytes) {
    std::memcpy(to + at, &pattern, std::min<std::uint64_t>(element_bytes, size_bytes - at));
  }
}

}  // namespace

std::string_view MemoryFault::why(std::string_view owner) const noexcept {
  switch (reason) {
    case Reason::no_right: return is_write() ? "this GPU may only read it" : "this GPU may not read it";
    case Reason::misaligned: return "the address is not aligned";
    case Reason::host: return text(host);
    case Reason::no_page: break;
  }
  return owner.empty() ? "nothing is mapped there" : owner;
}

bool GpuMemory::failed(const HostFault& fault, std::uint64_t va, Rights wanted) noexcept {
  if (!fault) return false;
  m_fault = {va, wanted, MemoryFault::Reason::host, fault.reason};
  return true;
}

// The length, at most size_bytes, that lies in one extent with the wanted rights; 0 after a fault.
std::uint64_t GpuMemory::span(const AddressSpace::View& view, std::uint64_t va, std::uint64_t size_bytes,
                              Rights wanted, std::byte*& host) noexcept {
  const Extent extent = view.find(va);
  if (!allows(extent.rights, wanted)) {
    m_fault = {va, wanted, extent.rights != Rights::none ? MemoryFault::Reason::no_right : MemoryFault::Reason::no_page};
    return 0;
  }
  host = extent.host(va);
  return std::min(size_bytes, extent.end - va);
}

bool GpuMemory::access(std::uint64_t va, std::uint64_t size_bytes, Rights wanted, Action action,
                       void* context) noexcept {
  const AddressSpace::View view(m_space);
  std::byte* host = nullptr;
  const std::uint64_t length = span(view, va, size_bytes, wanted, host);
  if (length == 0) return false;
  if (length < size_bytes) {
    m_fault = {va, wanted, MemoryFault::Reason::no_page};
    return false;
  }
  return !failed(HostGuard::guarded([&] { action(host, context); }), va, wanted);
}

bool GpuMemory::read(std::uint64_t va, void* out, std::uint64_t size_bytes) noexcept {
  const AddressSpace::View view(m_space);
  for (std::uint64_t done = 0; done < size_bytes;) {
    std::byte* host = nullptr;
    const std::uint64_t length = span(view, va + done, size_bytes - done, Rights::read, host);
    if (length == 0) return false;
    const HostFault fault = HostGuard::guarded([&] { std::memcpy(static_cast<std::byte*>(out) + done, host, length); });
    if (failed(fault, va + done, Rights::read)) return false;
    done += length;
  }
  return true;
}

bool GpuMemory::write(std::uint64_t va, const void* data, std::uint64_t size_bytes) noexcept {
  const AddressSpace::View view(m_space);
  for (std::uint64_t done = 0; done < size_bytes;) {
    std::byte* host = nullptr;
    const std::uint64_t length = span(view, va + done, size_bytes - done, Rights::write, host);
    if (length == 0) return false;
    const HostFault fault = HostGuard::guarded([&] { std::memcpy(host, static_cast<const std::byte*>(data) + done, length); });
    if (failed(fault, va + done, Rights::write)) return false;
    done += length;
  }
  return true;
}

bool GpuMemory::copy(std::uint64_t to, std::uint64_t from, std::uint64_t size_bytes) noexcept {
  const AddressSpace::View view(m_space);
  for (std::uint64_t done = 0; done < size_bytes;) {
    std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::uint64_t length = span(view, from + done, size_bytes - done, Rights::read, source);
    if (length != 0) length = span(view, to + done, length, Rights::write, target);
    if (length == 0) return false;
    if (const HostFault fault = HostGuard::guarded([&] { std::memmove(target, source, length); })) {
      const auto begin = reinterpret_cast<std::uint64_t>(target);
      const bool writing = fault.address >= begin && fault.address < begin + length;
      const std::uint64_t into = fault.address - (writing ? begin : reinterpret_cast<std::uint64_t>(source));
      return !failed(fault, (writing ? to : from) + done + into, writing ? Rights::write : Rights::read);
    }
    done += length;
  }
  return true;
}

bool GpuMemory::fill(std::uint64_t va, std::uint32_t pattern, unsigned element_bytes,
                     std::uint64_t size_bytes) noexcept {
  const AddressSpace::View view(m_space);
  for (std::uint64_t done = 0; done < size_bytes;) {
    std::byte* host = nullptr;
    const std::uint64_t length = span(view, va + done, size_bytes - done, Rights::write, host);
    if (length == 0) return false;
    if (failed(HostGuard::guarded([&] { fill_elements(host, pattern, element_bytes, length); }), va + done, Rights::write)) return false;
    done += length;
  }
  return true;
}

bool complete_signal(GpuMemory& memory, EventTable& events, std::uint64_t signal_va,
                     std::optional<TimeStamps> stamps) noexcept {
  aql::Signal signal{};
  // All of it first: once the value has changed, the program may free the signal.
  if (!memory.read(signal_va, &signal, sizeof signal)) return false;
  if (stamps) {
    if (!memory.store(signal_va + offsetof(aql::Signal, start_ts), stamps->start) ||
        !memory.store(signal_va + offsetof(aql::Signal, end_ts), stamps->end)) {
      return false;
    }
  }
  if (!memory.add<std::int64_t>(signal_va + offsetof(aql::Signal, value), -1)) return false;
  if (signal.event_mailbox_ptr == 0) return true;
  const bool written = memory.store<std::uint64_t>(signal.event_mailbox_ptr, signal.event_id);
  events.set(signal.event_id);
  return written;
}

bool store_signal(GpuMemory& memory, EventTable& events, std::uint64_t signal_va, std::int64_t value) noexcept {
  aql::Signal signal{};
  if (!memory.read(signal_va, &signal, sizeof signal) ||
      !memory.store(signal_va + offsetof(aql::Signal, value), value)) {
    return false;
  }
  if (signal.event_mailbox_ptr == 0) return true;
  const bool written = memory.store<std::uint64_t>(signal.event_mailbox_ptr, signal.event_id);
  events.set(signal.event_id);
  return written;
}

}  // namespace kerncap::softgpu

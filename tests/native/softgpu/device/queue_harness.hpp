// A GPU with one piece of memory, a queue on it that is stepped by hand, and the program's side of both: signals, rings,
// doorbells, events.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <utility>

#include "fake_engine.hpp"
#include "softgpu/device/aql_queue.hpp"
#include "softgpu/device/sdma_queue.hpp"

namespace kerncap::softgpu::test {

// Offsets of what lies in the memory; the page after its end is not mapped for anybody.
inline constexpr std::size_t k_queue_at = 0, k_read_pointer_at = 1024, k_signals_at = 4096, k_ring_at = 8192;
inline constexpr std::size_t k_data_at = 65536, k_memory_bytes = std::size_t{8} << 20;
inline constexpr std::uint64_t k_ring_packets = 16, k_ring_bytes = k_ring_packets * 64;

class Memory {
 public:
  Memory()
      : m_begin(static_cast<std::byte*>(
            mmap(nullptr, k_memory_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    mprotect(m_begin + k_memory_bytes, 4096, PROT_NONE);
  }
  ~Memory() { munmap(m_begin, k_memory_bytes + 4096); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::uint64_t va(std::size_t offset = 0) const noexcept {
    return reinterpret_cast<std::uint64_t>(m_begin) + offset;
  }
  template <typename T = std::byte>
  [[nodiscard]] T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(m_begin + offset);
  }

 private:
  std::byte* m_begin;
};

class Device {
 public:
  explicit Device(Target target = Target::gfx90a) : gpu(0, 1, chip_of(target)) {
    gpu.space.map({memory.va(), memory.va() + k_memory_bytes, 0, Rights::all});
    m_memory_event = events.create(KFD_IOC_EVENT_MEMORY, true).id;
    m_hardware_event = events.create(KFD_IOC_EVENT_HW_EXCEPTION, true).id;
  }

  // Signal i, of a few; its value can be set.
  [[nodiscard]] aql::Signal& signal(unsigned i) const noexcept { return memory.at<aql::Signal>(k_signals_at)[i]; }
  [[nodiscard]] std::uint64_t signal_va(unsigned i) const noexcept { return memory.va(k_signals_at + i * sizeof(aql::Signal)); }

  // Whether an exception was raised since the last call; its address, for a memory fault.
  [[nodiscard]] bool took_memory_fault(std::uint64_t& address, bool& read_only) {
    kfd_event_data data{};
    data.event_id = m_memory_event;
    if (events.wait({&data, 1}, true, 0) != KFD_IOC_WAIT_RESULT_COMPLETE) return false;
    address = data.memory_exception_data.va;
    read_only = data.memory_exception_data.failure.ReadOnly != 0;
    return true;
  }
  [[nodiscard]] bool took_memory_fault() {
    std::uint64_t address;
    bool read_only;
    return took_memory_fault(address, read_only);
  }
  [[nodiscard]] bool took_hardware_exception() {
    kfd_event_data data{};
    data.event_id = m_hardware_event;
    return events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE;
  }

  [[nodiscard]] QueueContext context() {
    return {gpu, events, engine, nullptr, [this] { ++changes; }};
  }

  Memory memory;
  Gpu gpu;
  EventTable events;
  Engine engine;
  unsigned changes = 0;  // how often the runner was woken

 private:
  std::uint32_t m_memory_event, m_hardware_event;
};

// Steps until the queue has nothing more to do, at most so many times: a step must never find work for ever.
inline Queue::Progress run(Queue& queue, unsigned most_steps = 100'000) {
  for (unsigned i = 0; i < most_steps; ++i) {
    const Queue::Progress progress = queue.step();
    if (progress != Queue::Progress::worked) return progress;
  }
  std::fprintf(stderr, "a queue works for ever\n");
  std::abort();
}

class AqlTester : public Device {
 public:
  static constexpr unsigned k_inactive = 15;  // the signal that tells of errors

  explicit AqlTester(Target target = Target::gfx90a) : Device(target) {
    auto& amd_queue = *memory.at<aql::Queue>(k_queue_at);
    amd_queue.queue_inactive_signal = signal_va(k_inactive);
    for (std::uint64_t i = 0; i < k_ring_packets; ++i) slot(i).header = 1;  // invalid
    QueueSettings settings;
    settings.id = 4097;
    settings.ring_va = memory.va(k_ring_at);
    settings.ring_bytes = k_ring_bytes;
    settings.read_pointer_va = memory.va(k_queue_at + offsetof(aql::Queue, read_dispatch_id));
    settings.write_pointer_va = memory.va(k_queue_at + offsetof(aql::Queue, write_dispatch_id));
    settings.doorbell = &m_doorbell;
    queue = std::make_shared<AqlQueue>(context(), settings);
  }
  ~AqlTester() { queue->stop(); }

  [[nodiscard]] aql::Packet& slot(std::uint64_t index) const noexcept {
    return memory.at<aql::Packet>(k_ring_at)[index % k_ring_packets];
  }
  // Writes a packet and rings. Its index.
  template <typename PacketOf>
  std::uint64_t put(const PacketOf& packet) {
    std::memcpy(&slot(m_written), &packet, sizeof packet);
    m_doorbell = m_written;
    return m_written++;
  }
  void ring(std::uint64_t doorbell) noexcept { m_doorbell = doorbell; }
  // What the program says that it has reserved.
  void write_index(std::uint64_t index) noexcept { memory.at<aql::Queue>(k_queue_at)->write_dispatch_id = index; }
  [[nodiscard]] std::uint64_t read_index() const noexcept { return memory.at<aql::Queue>(k_queue_at)->read_dispatch_id; }
  [[nodiscard]] std::uint32_t error() const noexcept { return static_cast<std::uint32_t>(signal(k_inactive).value); }
  Queue::Progress step() { return run(*queue); }

  std::shared_ptr<AqlQueue> queue;

 private:
  std::uint64_t m_doorbell = ~std::uint64_t{0}, m_written = 0;
};

class SdmaTester : public Device {
 public:
  explicit SdmaTester(std::uint64_t ring_bytes = 4096) : m_ring_bytes(ring_bytes) {
    QueueSettings settings;
    settings.id = 4098;
    settings.ring_va = memory.va(k_ring_at);
    settings.ring_bytes = ring_bytes;
    settings.read_pointer_va = memory.va(k_read_pointer_at);
    settings.doorbell = &m_doorbell;
    queue = std::make_shared<SdmaQueue>(context(), settings);
  }
  ~SdmaTester() { queue->stop(); }

  // Writes words, around the ring's end if need be, and rings.
  void put(std::initializer_list<std::uint32_t> words) {
    for (const std::uint32_t word : words) {
      std::memcpy(memory.at(k_ring_at + m_written % m_ring_bytes), &word, 4);
      m_written += 4;
    }
    m_doorbell = m_written;
  }
  void ring(std::uint64_t doorbell) noexcept { m_doorbell = doorbell; }
  [[nodiscard]] bool is_empty() const noexcept { return *memory.at<std::uint64_t>(k_read_pointer_at) == m_written; }
  [[nodiscard]] std::uint64_t written() const noexcept { return m_written; }
  Queue::Progress step() { return run(*queue); }

  std::shared_ptr<SdmaQueue> queue;

 private:
  std::uint64_t m_ring_bytes, m_doorbell = ~std::uint64_t{0}, m_written = 0;
};

}  // namespace kerncap::softgpu::test

#include "softgpu/device/driver.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <utility>

#include "softgpu/device/aql_queue.hpp"
#include "softgpu/device/report.hpp"
#include "softgpu/device/sdma_queue.hpp"
#include "softgpu/device/system_files.hpp"
#include "softgpu/memory/host_guard.hpp"

namespace kerncap::softgpu {
namespace {

std::atomic<Driver*> g_driver{nullptr};
std::atomic<bool> g_is_unusable{false};
constinit std::mutex g_making;

constexpr std::size_t k_doorbells_per_gpu = k_doorbell_bytes / 8;
// File positions that stand for devices; buffers lie far above.
constexpr std::uint64_t k_kfd_position = 1;

[[nodiscard]] std::uint64_t host_memory_bytes() noexcept {
  return static_cast<std::uint64_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Driver* Driver::existing() noexcept { return g_driver.load(std::memory_order_acquire); }

Driver* Driver::instance() noexcept {
  if (Driver* driver = existing()) return driver;
  if (g_is_unusable.load()) return nullptr;
  const std::lock_guard lock(g_making);
  if (existing() == nullptr && !g_is_unusable.load()) {
    Driver* driver = make();
    if (driver == nullptr) g_is_unusable.store(true);
    g_driver.store(driver, std::memory_order_release);
  }
  return existing();
}

void Driver::forget_in_child() noexcept {
  // Threads of the parent may have held any of its locks: nothing of it is touched, not even to free it.
  g_driver.store(nullptr);
  g_is_unusable.store(false);
  new (&g_making) std::mutex;
}

Driver* Driver::make() {
  const Settings* settings = process_settings();
  if (settings == nullptr) return nullptr;
  const Settings& values = *settings;
  auto memory = MemoryFile::create(values.gpu_count, values.vram_bytes, host_memory_bytes());
  if (!memory) {
    report("%s; the program will see no GPU", memory.error().message.c_str());
    return nullptr;
  }
  set_tracing(values.trace);
  HostGuard::install();
  return new Driver(values, std::move(memory.value()));
}

Driver::Driver(const Settings& settings, std::shared_ptr<MemoryFile> memory)
    : m_settings(settings), m_memory(std::move(memory)), m_svm(m_gpus), m_lds(settings.beyond_lds), m_clock(settings.clock_seed),
      m_engine(settings.workers, settings.schedule) {
  for (unsigned i = 0; i < settings.gpu_count; ++i) {
    m_gpus.push_back(std::make_unique<Gpu>(i, k_first_gpu_id + i, *settings.chip));
    m_doorbells.emplace_back(k_doorbells_per_gpu, false);
  }
  if (!settings.count_path.empty()) m_log = std::make_unique<InstructionLog>(settings.count_path);
  if (m_log != nullptr && !settings.accesses_path.empty()) m_accesses = std::make_unique<AccessLog>(settings.accesses_path);
}

Gpu* Driver::gpu(std::uint32_t id) const noexcept {
  const std::uint32_t index = id - k_first_gpu_id;
  return index < m_gpus.size() ? m_gpus[index].get() : nullptr;
}

int Driver::open_device(DeviceNode node, int flags) noexcept {
  const std::uint64_t position =
      node.device == Device::kfd ? k_kfd_position : k_first_render_minor + node.gpu_index;
  return m_memory->open_handle(position, (flags & O_CLOEXEC) != 0);
}

Handle Driver::handle_of(int fd) const noexcept {
  if (!m_memory->is_handle(fd)) return {};
  const off_t position = lseek(fd, 0, SEEK_CUR);
  if (position < 0) return {};
  const auto at = static_cast<std::uint64_t>(position);
  if (at == k_kfd_position) return {HandleKind::kfd};
  if (at >= k_first_render_minor && at < k_first_render_minor + m_gpus.size()) {
    return {HandleKind::render, static_cast<unsigned>(at - k_first_render_minor)};
  }
  return m_memory->record(at) != nullptr ? Handle{HandleKind::dma_buf, 0, at} : Handle{};
}

std::uint32_t Driver::create_queue(Gpu& gpu, QueueSettings settings, bool copies) {
  const std::lock_guard lock(m_mutex);
  auto& taken = m_doorbells[gpu.index];
  const auto slot = std::find(taken.begin(), taken.end(), false);
  if (slot == taken.end()) return 0;
  *slot = true;
  const auto number = static_cast<std::uint32_t>(slot - taken.begin());
  settings.id = gpu.index << 16 | number | 1U << 12;  // never 0
  settings.doorbell =
      reinterpret_cast<std::uint64_t*>(m_memory->view() + m_memory->doorbells_offset(gpu.index)) + number;
  std::atomic_ref<std::uint64_t>(*settings.doorbell).store(~std::uint64_t{0});

  const QueueContext context{gpu, m_events, m_engine, m_log.get(), [this] { m_scheduler.wake(); }, m_gpus, &m_lds, m_accesses.get(), &m_clock,
                             m_settings.keeps_leftovers};
  std::shared_ptr<Queue> queue;
  if (copies) {
    queue = std::make_shared<SdmaQueue>(context, settings);
  } else {
    queue = std::make_shared<AqlQueue>(context, settings);
  }
  m_queues.emplace(settings.id, queue);
  trace("queue %u: %s on GPU %u, ring 0x%llx of %llu bytes", settings.id, copies ? "copies" : "AQL", gpu.index,
        static_cast<unsigned long long>(settings.ring_va), static_cast<unsigned long long>(settings.ring_bytes));
  m_scheduler.add(std::move(queue), copies);
  return settings.id;
}

bool Driver::destroy_queue(std::uint32_t id) {
  std::shared_ptr<Queue> queue;
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_queues.find(id);
    if (found == m_queues.end()) return false;
    queue = found->second;
    m_queues.erase(found);
  }
  m_scheduler.remove(queue.get());
  queue->stop();
  const std::lock_guard lock(m_mutex);
  m_doorbells[queue->gpu().index][id & (k_doorbells_per_gpu - 1)] = false;
  return true;
}

std::shared_ptr<Queue> Driver::queue(std::uint32_t id) const {
  const std::lock_guard lock(m_mutex);
  const auto found = m_queues.find(id);
  return found == m_queues.end() ? nullptr : found->second;
}

}  // namespace kerncap::softgpu

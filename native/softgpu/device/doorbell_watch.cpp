#include "softgpu/device/doorbell_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "softgpu/device/clock.hpp"
#include "softgpu/device/kernel_fstat.hpp"
#include "softgpu/device/service_thread.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_busy_ns = 200'000;

[[nodiscard]] core::UniqueFd open_userfaultfd() noexcept {
#if defined(UFFD_USER_MODE_ONLY) && defined(UFFD_FEATURE_WP_HUGETLBFS_SHMEM)
  core::UniqueFd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
  if (!fd.valid()) return fd;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  if (ioctl(fd.get(), UFFDIO_API, &api) != 0) return {};
  return fd;
#else
  return {};  // the kernel headers are too old to know of write protection for shared memory
#endif
}

}  // namespace

DoorbellWatch::DoorbellWatch(std::function<void()> rung) : m_rung(std::move(rung)), m_fd(open_userfaultfd()) {
  struct stat info {};
  if (m_fd.valid() && kernel_fstat(m_fd.get(), info) != 0) m_fd.reset();
  if (!m_fd.valid()) return;
  m_inode = info.st_ino;
  start_service_thread("softgpu-doorbel", [this] { run(); });
}

bool DoorbellWatch::owns_descriptor() const noexcept {
  struct stat info {};
  return m_fd.valid() && kernel_fstat(m_fd.get(), info) == 0 && info.st_ino == m_inode;
}

void DoorbellWatch::add(std::uint64_t va, std::uint64_t size_bytes) {
  if (!owns_descriptor()) return;
  uffdio_register range{};
  range.range = {va, size_bytes};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  const std::lock_guard lock(m_mutex);
  if (ioctl(m_fd.get(), UFFDIO_REGISTER, &range) != 0) {
    m_fd.reset();  // then nothing is watched, and all is polled
    return;
  }
  m_pages.push_back({va, size_bytes, false});
}

void DoorbellWatch::remove(std::uint64_t va) {
  const std::lock_guard lock(m_mutex);
  std::erase_if(m_pages, [&](const Page& page) {
    if (page.va != va) return false;
    if (page.armed) (void)protect(page, false);
    return true;
  });
}

bool DoorbellWatch::protect(const Page& page, bool on) noexcept {
  uffdio_writeprotect request{};
  request.range = {page.va, page.size_bytes};
  request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  return ioctl(m_fd.get(), UFFDIO_WRITEPROTECT, &request) == 0;
}

DoorbellWatch::Watch DoorbellWatch::arm(std::uint64_t now_ns) {
  const std::lock_guard lock(m_mutex);
  if (!m_fd.valid() || m_pages.empty()) return Watch::impossible;
  // Another thread may have noted a later time.
  if (static_cast<std::int64_t>(now_ns - m_busy_ns.load(std::memory_order_relaxed)) < static_cast<std::int64_t>(k_busy_ns)) {
    return Watch::busy;
  }
  for (Page& page : m_pages) {
    if (!page.armed && !protect(page, true)) return Watch::impossible;
    page.armed = true;
  }
  return Watch::armed;
}

void DoorbellWatch::run() {
  while (owns_descriptor()) {
    uffd_msg message{};
    if (read(m_fd.get(), &message, sizeof message) != static_cast<ssize_t>(sizeof message)) continue;
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    {
      const std::lock_guard lock(m_mutex);
      note_work(read_clock_ns(CLOCK_MONOTONIC));
      for (Page& page : m_pages) {
        if (message.arg.pagefault.address < page.va || message.arg.pagefault.address >= page.va + page.size_bytes) continue;
        page.armed = false;
        (void)protect(page, false);
      }
    }
    m_rung();
  }
  give_up();
}

// The number is the program's to close, if it is anything now.
void DoorbellWatch::give_up() {
  {
    const std::lock_guard lock(m_mutex);
    (void)m_fd.release();
    for (Page& page : m_pages) page.armed = false;
  }
  m_rung();   // a store may have come when nobody watched
}

}  // namespace kerncap::softgpu

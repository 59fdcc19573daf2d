// Answers the runtime's request for address space; see the header for how it asks.
//
// mmap and munmap are defined for the whole process: they allocate nothing, take no lock and pass on everything but
// what the steering thread asks for while it steers.
#undef _FILE_OFFSET_BITS              // it would turn mmap into mmap64, and both are defined here
#include "hsa/driver/steering.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <initializer_list>

namespace kerncap::hsa {
namespace {

constexpr std::uint64_t k_page = 4096;

// How the runtime uses what it asks for, told by the padding: a guard page on either side and the alignment less a page
// (ROCr 6.4 and 7.2), or a guard page behind only (older thunks). Alignment 0 when it is neither: then nothing is known.
struct Layout {
  std::uint64_t before;
  std::uint64_t alignment;
};

Layout layout_of(std::uint64_t padding) noexcept {
  if (padding > k_page && std::has_single_bit(padding - k_page)) return {k_page, padding - k_page};
  if (padding >= k_page && std::has_single_bit(padding)) return {0, padding};
  return {0, 0};
}

thread_local Steering* t_active = nullptr;

using Map = void* (*)(void*, std::size_t, int, int, int, off_t);
using Unmap = int (*)(void*, std::size_t);

// The next definition: the software GPU's, or the C library's.
Map real_mmap() noexcept {
  static const auto real = reinterpret_cast<Map>(::dlsym(RTLD_NEXT, "mmap"));
  return real;
}

Unmap real_munmap() noexcept {
  static const auto real = reinterpret_cast<Unmap>(::dlsym(RTLD_NEXT, "munmap"));
  return real;
}

void* pointer(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }

}  // namespace

Steering::Steering(std::uint64_t base, std::uint64_t bytes) noexcept : m_base(base), m_bytes(bytes) {
  t_active = this;
}

Steering::~Steering() { t_active = nullptr; }

Steering* Steering::active() noexcept { return t_active; }

bool Steering::wants(const void* hint, std::size_t length, int protection, int flags, int fd) const noexcept {
  // No allocation of this size asks for more; one that does is another one.
  const std::uint64_t most = m_bytes + std::max(m_bytes, k_page) + 2 * k_page;
  return !m_answered && hint == nullptr && length >= m_bytes && length <= most && protection == PROT_NONE && fd == -1 &&
         (flags & MAP_ANONYMOUS) != 0 && (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == 0;
}

void Steering::take(Padding& padding, int protection, int flags) noexcept {
  const std::uint64_t bytes = padding.end - padding.begin;
  if (bytes == 0) return;
  void* got = real_mmap()(pointer(padding.begin), bytes, protection, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == pointer(padding.begin)) return;
  if (got != MAP_FAILED) real_munmap()(got, bytes);  // a kernel that takes it for a hint
  padding.is_pretended = true;
}

void* Steering::answer(std::size_t length, int protection, int flags) noexcept {
  const Layout layout = layout_of(length - m_bytes);
  const std::uint64_t end = m_base + m_bytes;
  const bool is_known = layout.alignment != 0 && m_base % layout.alignment == 0;
  m_before = {m_base - layout.before, m_base, false};
  m_behind = {end, m_base - layout.before + length, false};
  take(m_before, protection, flags);
  take(m_behind, protection, flags);
  // Padding is given back at once, so that it need not be there; unless the runtime puts its memory into it.
  if (!is_known && (m_before.is_pretended || m_behind.is_pretended)) {
    for (Padding* padding : {&m_before, &m_behind}) {
      if (!padding->is_pretended) real_munmap()(pointer(padding->begin), padding->end - padding->begin);
      *padding = {};
    }
    return MAP_FAILED;
  }
  if (real_mmap()(pointer(m_base), m_bytes, protection, flags | MAP_FIXED, -1, 0) == MAP_FAILED) return MAP_FAILED;
  m_answered = true;
  return pointer(m_before.begin);
}

bool Steering::trim(std::uint64_t& address, std::uint64_t& length) const noexcept {
  // The runtime unmaps padding from one side or the other, never across both ends of what it keeps.
  for (const Padding* padding : {&m_before, &m_behind}) {
    const std::uint64_t end = address + length;
    if (!padding->is_pretended || end <= padding->begin || address >= padding->end) continue;
    if (address >= padding->begin) {
      address = std::min(end, padding->end);
      length = end - address;
    } else {
      length = padding->begin - address;
    }
  }
  return length != 0;
}

}  // namespace kerncap::hsa

#define KERNCAP_IN_FRONT extern "C" __attribute__((visibility("default")))

KERNCAP_IN_FRONT void* mmap(void* hint, std::size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  using kerncap::hsa::Steering;
  Steering* steering = Steering::active();
  if (steering != nullptr && steering->wants(hint, length, protection, flags, fd)) {
    if (void* got = steering->answer(length, protection, flags); got != MAP_FAILED) return got;
  }
  return kerncap::hsa::real_mmap()(hint, length, protection, flags, fd, offset);
}

KERNCAP_IN_FRONT void* mmap64(void* hint, std::size_t length, int protection, int flags, int fd, off64_t offset) noexcept {
  return mmap(hint, length, protection, flags, fd, offset);
}

KERNCAP_IN_FRONT int munmap(void* address, std::size_t length) noexcept {
  auto begin = reinterpret_cast<std::uint64_t>(address);
  std::uint64_t bytes = length;
  const kerncap::hsa::Steering* steering = kerncap::hsa::Steering::active();
  if (steering != nullptr && steering->answered() && !steering->trim(begin, bytes)) return 0;
  return kerncap::hsa::real_munmap()(reinterpret_cast<void*>(begin), bytes);
}

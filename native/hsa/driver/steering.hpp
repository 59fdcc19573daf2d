// Makes the runtime put its next allocation at an address of our choice.
//
// ROCr has no call that loads a code object at a given address. Its allocations get theirs from the thunk, which asks
// the kernel for inaccessible address space, mmap(nullptr, size + padding, PROT_NONE, ...), leaves a guard page, aligns
// inside what it got, gives the padding on both sides back with munmap and puts the memory there. This program defines
// mmap and munmap itself, in front of the C library's, and answers that one request
// (docs/decisions/0015-code-at-its-own-address.md).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace kerncap::hsa {

// While it lives, the first request of this thread that is one for `bytes` of memory gets `base`. The range must
// be free or held by the replay itself (replay/address_space.hpp): it is replaced. Whether the runtime then used the
// address is for the caller to look at: nothing is certain here.
class Steering {
 public:
  // Whole pages.
  Steering(std::uint64_t base, std::uint64_t bytes) noexcept;
  ~Steering();
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;

  // Whether a request came and was answered.
  [[nodiscard]] bool answered() const noexcept { return m_answered; }

  // For the functions that stand in front of the C library's.
  [[nodiscard]] static Steering* active() noexcept;
  [[nodiscard]] bool wants(const void* hint, std::size_t length, int protection, int flags, int fd) const noexcept;
  // The address, or MAP_FAILED when the request has to be answered as ever.
  void* answer(std::size_t length, int protection, int flags) noexcept;
  // Takes out of a range to unmap what was only pretended to be mapped; false when nothing is left of it.
  bool trim(std::uint64_t& address, std::uint64_t& length) const noexcept;

 private:
  // Padding on one side: taken, or only pretended where others' memory lies.
  struct Padding {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool is_pretended = false;
  };
  static void take(Padding& padding, int protection, int flags) noexcept;

  std::uint64_t m_base;
  std::uint64_t m_bytes;
  Padding m_before;
  Padding m_behind;
  bool m_answered = false;
};

}  // namespace kerncap::hsa

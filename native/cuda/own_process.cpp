// One page: what is cleared is cleared in whole pages.
#include "cuda/own_process.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace kerncap::cuda {

OwnProcess* make_own_process() noexcept {
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  (void)::madvise(page, bytes, MADV_WIPEONFORK);
  return new (page) OwnProcess();
}

}  // namespace kerncap::cuda

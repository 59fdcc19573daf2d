// The cache of decoded code, where memory goes while a page is read.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "../check.hpp"
#include "kernel_harness.hpp"
#include "softgpu/exec/code_cache.hpp"
#include "softgpu/memory/host_guard.hpp"

// What is as large as a page of decoded code is closed when it is deleted: nothing can look at it afterwards.
namespace {

constexpr std::size_t k_own_mapping = 8192, k_head_bytes = 64;

void* allocate(std::size_t bytes) {
  const std::size_t whole = bytes + k_head_bytes;
  void* memory = bytes < k_own_mapping ? std::malloc(whole)
                                       : mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == nullptr || memory == MAP_FAILED) std::abort();
  std::memcpy(memory, &bytes, sizeof bytes);
  return static_cast<char*>(memory) + k_head_bytes;
}

void give_back(void* at) noexcept {
  if (at == nullptr) return;
  void* memory = static_cast<char*>(at) - k_head_bytes;
  std::size_t bytes = 0;
  std::memcpy(&bytes, memory, sizeof bytes);
  if (bytes < k_own_mapping) {
    std::free(memory);
  } else {
    mprotect(memory, bytes + k_head_bytes, PROT_NONE);
  }
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void operator delete(void* at) noexcept { give_back(at); }
void operator delete(void* at, std::size_t) noexcept { give_back(at); }

using namespace kerncap::softgpu;

namespace {

constexpr std::uint32_t k_nop = 0xBF800000, k_end = 0xBF810000;

// The page has changed, so it is dropped and read anew; its instructions may end on the next page, which faults.
void a_page_that_goes_while_it_is_read_anew() {
  const testing::Pages code(2 * k_code_page_bytes);
  std::memcpy(code.data(), &k_nop, sizeof k_nop);
  AddressSpace space;
  space.map(code.extent(Rights::all));
  const AddressSpace::View view(space);
  Translation memory;
  memory.begin_slice(space, view);
  CodeCache cache(Target::gfx90a);
  Fault fault;
  const Instruction* found = cache.find(memory, code.va(), fault);
  CHECK(found != nullptr && found->pc == code.va());

  std::memcpy(code.data(), &k_end, sizeof k_end);
  mprotect(code.data() + k_code_page_bytes, k_code_page_bytes, PROT_NONE);
  cache.begin_epoch();
  CHECK(static_cast<bool>(HostGuard::guarded([&] { found = cache.find(memory, code.va(), fault); })));
  mprotect(code.data() + k_code_page_bytes, k_code_page_bytes, PROT_READ | PROT_WRITE);
  const HostFault lost = HostGuard::guarded([&] { found = cache.find(memory, code.va(), fault); });
  CHECK(!lost);
  CHECK(found != nullptr && found->pc == code.va());
}

}  // namespace

int main() {
  HostGuard::install();
  a_page_that_goes_while_it_is_read_anew();
  return kerncap::test::exit_code();
}

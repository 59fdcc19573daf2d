// Host memory is put back word by word, and only where nobody has written since. The driver is a table of stubs (stub_cuda.hpp) to which
// all memory is the host's.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "stub_cuda.hpp"
#include "cuda/put_back.hpp"

using namespace kerncap::test;

namespace {

using kerncap::capture::MemoryKind;

constexpr std::size_t k_chunk = 1 << 20;
constexpr std::chrono::milliseconds k_wait{1000};
CUdeviceptr g_flags = 0;               // which chunks changed, as our kernel says
int g_fetched = 0;
std::function<void(int)> g_when_fetched = [](int) {};   // how many chunks have been, with the one that is fetched now

void fill() {
  use_host_memory();
  Driver& table = driver_stub();
  table.cuMemAlloc_v2 = [](CUdeviceptr* made, std::size_t bytes) {
    g_flags = *made = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoH_v2 = [](void* to, CUdeviceptr from, std::size_t bytes) {
    if (from != g_flags) g_when_fetched(++g_fetched);
    std::memcpy(to, pointer(from), bytes);
    return CUDA_SUCCESS;
  };
}

// A program's region, and the copy of how it was.
class Memory {
 public:
  explicit Memory(std::vector<std::size_t> sizes, std::size_t skew = 0) {
    for (const std::size_t bytes : sizes) {
      auto* base = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + skew + 4095) / 4096 * 4096)) + skew;
      for (std::size_t i = 0; i < bytes; ++i) base[i] = static_cast<std::byte>(i * 7);
      Allocation region;
      region.base = reinterpret_cast<std::uint64_t>(base);
      region.bytes = bytes;
      region.kind = MemoryKind::host_pinned;
      regions.push_back(region);
    }
    const auto offsets = Copier::layout(regions);
    kept = static_cast<std::byte*>(std::aligned_alloc(4096, (offsets.back() + 4095) / 4096 * 4096));
    for (std::size_t i = 0; i < regions.size(); ++i) std::memcpy(kept + offsets[i], pointer(regions[i].base), regions[i].bytes);
  }
  std::byte* at(std::size_t region, std::size_t offset) { return static_cast<std::byte*>(pointer(regions[region].base)) + offset; }
  bool is_as_before(std::size_t region) {
    return std::memcmp(at(region, 0), kept + Copier::layout(regions)[region], regions[region].bytes) == 0;
  }
  void put_back(const std::vector<PutBack>& how) { CHECK(try_to_put_back(how).ok()); }
  kerncap::core::Result<void> try_to_put_back(const std::vector<PutBack>& how) {
    static OwnMemory s_memory;
    static Copier s_copier(s_memory);
    static Changed s_changed;
    g_fetched = 0;
    g_warnings.clear();
    return kerncap::cuda::put_back(regions, reinterpret_cast<CUdeviceptr>(kept), how, s_copier, s_changed);
  }

  std::vector<Allocation> regions;
  std::byte* kept = nullptr;
};

void what_our_run_changed_is_put_back_and_no_other_chunk_is_looked_at() {
  Memory memory({3 * k_chunk + 100, 2 * k_chunk});
  std::memset(memory.at(0, 17), 0xEE, 30);
  std::memset(memory.at(0, 3 * k_chunk + 90), 0xEE, 10);
  std::memset(memory.at(1, k_chunk), 0xEE, k_chunk);
  memory.put_back({PutBack::words, PutBack::words});
  CHECK(memory.is_as_before(0) && memory.is_as_before(1));
  CHECK(g_fetched == 3 && g_warnings.empty());
}

// Guarded against races: no thread may touch it now, and so none writes there.
void protected_memory_is_put_back_by_the_device() {
  Memory memory({2 * k_chunk, k_chunk, k_chunk});
  for (const std::size_t region : {0, 1, 2}) std::memset(memory.at(region, 17), 0xEE, 30);
  const auto usual = driver_stub().cuMemcpyAsync;
  driver_stub().cuMemcpyAsync = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
    CHECK(::mprotect(pointer(to), bytes, PROT_READ | PROT_WRITE) == 0);
    std::memcpy(pointer(to), pointer(from), bytes);
    return CUDA_SUCCESS;
  };
  for (const std::size_t region : {0, 1}) CHECK(::mprotect(memory.at(region, 0), k_chunk, PROT_READ) == 0);
  memory.put_back({PutBack::words, PutBack::warning, PutBack::words});
  driver_stub().cuMemcpyAsync = usual;
  CHECK(memory.is_as_before(0) && memory.is_as_before(1) && memory.is_as_before(2));
}

// By a thread, behind the look at the chunk and before it is put back.
void what_has_been_written_since_stays() {
  Memory memory({2 * k_chunk});
  for (const std::size_t at : {std::size_t{64}, std::size_t{72}, k_chunk}) std::memset(memory.at(0, at), 0xEE, 8);
  g_when_fetched = [&](int number) {
    if (number == 2) std::memset(memory.at(0, 64), 0x33, 8);
  };
  memory.put_back({PutBack::words});
  g_when_fetched = [](int) {};
  std::byte theirs[8];
  std::memset(theirs, 0x33, 8);
  CHECK(std::memcmp(memory.at(0, 64), theirs, 8) == 0);
  std::memcpy(memory.at(0, 64), memory.kept + 64, 8);
  CHECK(memory.is_as_before(0));
}

// It counts, and would count on from what was there before.
void what_a_thread_writes_a_millisecond_later_stays() {
  Memory memory({k_chunk});
  std::memset(memory.at(0, 64), 0xEE, 8);
  std::thread counter;
  g_when_fetched = [&](int) {
    counter = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.at(0, 64))).fetch_add(1);
    });
  };
  memory.put_back({PutBack::words});
  counter.join();
  g_when_fetched = [](int) {};
  CHECK(*memory.at(0, 64) == std::byte{0xEF} && *memory.at(0, 71) == std::byte{0xEE});
}

void memory_that_begins_within_a_word_is_put_back() {
  for (const std::size_t skew : {1, 4, 8}) {
    Memory memory({k_chunk + 1000}, skew);
    std::memset(memory.at(0, 0), 0xEE, 3);
    std::memset(memory.at(0, k_chunk + 990), 0xEE, 10);
    memory.put_back({PutBack::words});
    CHECK(memory.is_as_before(0));
  }
}

void memory_of_threads_is_left_alone_with_a_warning() {
  Memory memory({k_chunk, k_chunk});
  *memory.at(0, 5) = std::byte{0xEE};
  memory.put_back({PutBack::warning, PutBack::warning});
  CHECK(*memory.at(0, 5) == std::byte{0xEE});
  CHECK(g_warnings.size() == 1 && g_warnings[0].find("pinned memory changed") != std::string::npos);
  *memory.at(0, 5) = static_cast<std::byte>(35);
  memory.put_back({PutBack::warning, PutBack::warning});
  CHECK(g_warnings.empty());
}

// Nor does the processor look at it: it may have no such address.
void memory_of_other_processes_and_gpus_is_left_alone_with_a_warning() {
  Memory memory({k_chunk, k_chunk});
  memory.put_back({PutBack::others, PutBack::others});
  CHECK(g_warnings.empty());
  *memory.at(0, 5) = *memory.at(1, 5) = std::byte{0xEE};
  memory.put_back({PutBack::others, PutBack::others});
  CHECK(*memory.at(0, 5) == std::byte{0xEE} && *memory.at(1, 5) == std::byte{0xEE});
  CHECK(g_warnings.size() == 1 && g_warnings[0].find("other processes or GPUs") != std::string::npos);
  CHECK(g_fetched == 0);
}

void so_much_that_words_would_take_long_is_put_back_by_the_device() {
  Memory memory({66 * k_chunk, k_chunk});
  std::memset(memory.at(0, 0), 0xEE, 66 * k_chunk);
  *memory.at(1, 5) = std::byte{0xEE};
  memory.put_back({PutBack::words, PutBack::warning});
  CHECK(memory.is_as_before(0) && *memory.at(1, 5) == std::byte{0xEE});
  CHECK(g_fetched == 0);
}

void whole_regions_are_the_devices_and_nothing_is_done_to_the_rest() {
  Memory memory({k_chunk, k_chunk});
  *memory.at(0, 5) = *memory.at(1, 5) = std::byte{0xEE};
  memory.put_back({PutBack::whole, PutBack::nothing});
  CHECK(memory.is_as_before(0) && *memory.at(1, 5) == std::byte{0xEE});
  CHECK(g_fetched == 0);
}

// `comes_to_rest`: so often before that. `copies`: how many were queued; none is behind one that hangs.
void a_device_that_hangs_is_given_up(int comes_to_rest, const std::string& what, int copies) {
  static int s_asked = 0;
  static int s_rest = 0;
  static int s_copies = 0;
  s_asked = s_copies = 0;
  s_rest = comes_to_rest;
  driver_stub().cuStreamQuery = [](CUstream) { return s_asked++ < s_rest ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; };
  const auto usual = driver_stub().cuMemcpyAsync;
  driver_stub().cuMemcpyAsync = [](CUdeviceptr, CUdeviceptr, std::size_t, CUstream) {
    ++s_copies;
    return CUDA_SUCCESS;
  };
  Memory memory({k_chunk, 66 * k_chunk});
  *memory.at(0, 5) = std::byte{0xEE};
  std::memset(memory.at(1, 0), 0xEE, 66 * k_chunk);   // too much for words
  const auto begin = std::chrono::steady_clock::now();
  const auto done = memory.try_to_put_back({PutBack::whole, PutBack::words});
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(!done && done.error().code == kerncap::core::ErrorCode::timeout && done.error().message == what + " did not end in time");
  CHECK(took > k_wait / 2 && took < 2 * k_wait);   // one wait
  CHECK(s_copies == copies);
  driver_stub().cuMemcpyAsync = usual;
  driver_stub().cuStreamQuery = [](CUstream) { return CUDA_SUCCESS; };
}

}  // namespace

int main() {
  fill_tables();
  fill();
  g_tool = new Tool(*make_own_process(), *Collector::start({}, k_wait.count(), 0).connect());
  what_our_run_changed_is_put_back_and_no_other_chunk_is_looked_at();
  protected_memory_is_put_back_by_the_device();
  what_has_been_written_since_stays();
  what_a_thread_writes_a_millisecond_later_stays();
  memory_that_begins_within_a_word_is_put_back();
  memory_of_threads_is_left_alone_with_a_warning();
  memory_of_other_processes_and_gpus_is_left_alone_with_a_warning();
  so_much_that_words_would_take_long_is_put_back_by_the_device();
  whole_regions_are_the_devices_and_nothing_is_done_to_the_rest();
  a_device_that_hangs_is_given_up(0, "comparing memory", 0);
  a_device_that_hangs_is_given_up(1, "putting memory back", 1);
  a_device_that_hangs_is_given_up(3, "putting memory back", 1 + 66);
  whole_regions_are_the_devices_and_nothing_is_done_to_the_rest();   // as soon as it has gone on
  return kerncap::test::exit_code();
}

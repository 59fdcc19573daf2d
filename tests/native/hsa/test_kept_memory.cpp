// Memory that is copied, compared and put back page by page, untouched pages of shared memory among it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "hsa/driver/kept_memory.hpp"

using kerncap::core::WorkerPool;
using kerncap::hsa::is_touched;
using kerncap::hsa::KeptMemory;

namespace {

constexpr std::uint64_t k_page = 4096;
constexpr std::uint64_t k_pages = 1024;

// As a software GPU has it: pages of a file in memory, which read as zeros until they are written.
class Memory {
 public:
  explicit Memory(std::uint64_t pages = k_pages) : m_size(pages * k_page) {
    const int file = ::memfd_create("memory", MFD_CLOEXEC);
    CHECK(::ftruncate(file, static_cast<off_t>(m_size)) == 0);
    m_bytes = static_cast<unsigned char*>(::mmap(nullptr, m_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
  }
  ~Memory() { ::munmap(m_bytes, m_size); }
  unsigned char& operator[](std::uint64_t at) { return m_bytes[at]; }
  [[nodiscard]] std::uint64_t address(std::uint64_t at = 0) const { return reinterpret_cast<std::uint64_t>(m_bytes + at); }

 private:
  std::uint64_t m_size;
  unsigned char* m_bytes;
};

using Words = std::vector<std::uint32_t>;

// What this process has in memory of its own, without files.
std::uint64_t own_pages() {
  std::uint64_t all = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared;
  return resident - shared;
}

void pages_far_apart_take_no_more_memory_than_they_have() {
  WorkerPool pool;
  constexpr std::uint64_t k_apart = 512;         // pages in a huge one
  constexpr std::uint64_t k_count = 100;
  Memory memory(k_count * k_apart);
  KeptMemory kept(pool);
  kept.add(memory.address(), k_count * k_apart * k_page);
  for (std::uint64_t i = 0; i < k_count; ++i) memory[i * k_apart * k_page] = static_cast<unsigned char>(i + 1);
  const std::uint64_t before = own_pages();
  CHECK(kept.keep());
  CHECK(kept.cover(memory.address(), k_count * k_apart * k_page));
  for (std::uint64_t i = 0; i < k_count; ++i) memory[i * k_apart * k_page] = static_cast<unsigned char>(i + 2);
  kept.note_run();
  CHECK(kept.keep());
  CHECK(own_pages() - before < 8 * k_apart);
  kept.put_back();
  for (std::uint64_t i = 0; i < k_count; ++i) CHECK(memory[i * k_apart * k_page] == i + 1);
}

void what_nobody_has_touched_is_told() {
  Memory memory;
  CHECK(!is_touched(memory.address(), memory.address(k_pages * k_page)));
  memory[5 * k_page] = 0;  // a page of zeros is touched all the same
  CHECK(is_touched(memory.address(), memory.address(k_pages * k_page)));
  CHECK(!is_touched(memory.address(6 * k_page), memory.address(k_pages * k_page)));
}

void a_changed_byte_marks_its_piece_alone() {
  WorkerPool pool;
  Memory memory;
  KeptMemory kept(pool);
  kept.add(memory.address(), 600 * k_page);
  kept.add(memory.address(700 * k_page), 300 * k_page - 7);
  memory[3] = 1;
  CHECK(kept.keep());
  CHECK(kept.changed(256 * k_page) == Words({0, 0, 0, 0, 0}));
  memory[600 * k_page - 1] = 1;                 // of a page that nobody had touched
  memory[3] = 2;
  memory[650 * k_page] = 1;                     // of neither part
  kept.note_run();
  CHECK(kept.changed(256 * k_page) == Words({1, 0, 1, 0, 0}));
  memory[3] = 1;
  memory[1000 * k_page - 8] = 1;                // the last byte of all
  memory[600 * k_page - 1] = 0;                 // a zero that is a touched page is as it was
  kept.note_run();
  CHECK(kept.changed(256 * k_page) == Words({0, 0, 0, 0, 1}));
}

void a_later_copy_is_compared_with_and_the_first_one_put_back() {
  WorkerPool pool(1);
  Memory memory;
  KeptMemory kept(pool);
  kept.add(memory.address(), 8 * k_page);
  CHECK(!kept.cover(memory.address(), k_page));  // there is no copy yet
  memory[0] = 1;
  memory[k_page] = 7;
  CHECK(kept.keep());
  CHECK(kept.cover(memory.address(), 4 * k_page));
  CHECK(!kept.cover(memory.address(7 * k_page), 2 * k_page));
  memory[0] = 2;
  memory[2 * k_page] = 3;
  memory[5 * k_page] = 4;                       // not covered
  kept.note_write(memory.address(), 8 * k_page);
  CHECK(kept.keep());
  CHECK(kept.changed(k_page) == Words(8));
  kept.put_back();
  CHECK(memory[0] == 1 && memory[k_page] == 7 && memory[2 * k_page] == 0 && memory[5 * k_page] == 4);
  CHECK(kept.changed(k_page) == Words({1, 0, 1, 0, 0, 0, 0, 0}));
  CHECK(kept.keep());
  CHECK(kept.changed(k_page) == Words(8));
  memory[0] = 2;
  kept.note_write(memory.address(), 1);
  CHECK(kept.changed(k_page) == Words({1, 0, 0, 0, 0, 0, 0, 0}));
}

void a_part_of_a_page_is_put_back_alone() {
  WorkerPool pool;
  Memory memory;
  KeptMemory kept(pool);
  kept.add(memory.address(100), 3 * k_page);    // begins within a page and ends within one
  std::memset(&memory[0], 1, 4 * k_page);
  CHECK(kept.keep());
  CHECK(kept.cover(memory.address(200), 2 * k_page));
  std::memset(&memory[0], 2, 4 * k_page);
  kept.note_run();
  CHECK(kept.changed(4 * k_page) == Words({1}));
  kept.put_back();
  CHECK(memory[199] == 2 && memory[200] == 1 && memory[199 + 2 * k_page] == 1 && memory[200 + 2 * k_page] == 2);
}

void only_what_may_have_been_written_is_looked_at() {
  WorkerPool pool(1);
  Memory memory;
  KeptMemory kept(pool);
  kept.add(memory.address(), 4 * k_page);
  kept.add(memory.address(6 * k_page), 2 * k_page);
  CHECK(kept.keep());
  CHECK(kept.cover(memory.address(), 2 * k_page));
  for (std::uint64_t page = 0; page < 8; ++page) memory[page * k_page] = 1;
  kept.put_back();                              // nobody said so
  CHECK(kept.changed(k_page) == Words(6) && memory[0] == 1);
  kept.note_write(memory.address(k_page), 4 * k_page + 1);   // into the gap
  CHECK(kept.changed(k_page) == Words({0, 1, 1, 1, 0, 0}));
  kept.note_write(memory.address(7 * k_page), 1);
  kept.put_back();
  CHECK(memory[0] == 1 && memory[k_page] == 0 && memory[2 * k_page] == 1);
  CHECK(kept.changed(k_page) == Words({0, 0, 1, 1, 0, 1}));
  kept.note_run();                              // from now on all pages are looked at
  kept.put_back();
  CHECK(memory[0] == 0 && kept.changed(k_page) == Words({0, 0, 1, 1, 1, 1}));
  CHECK(kept.keep());                           // not of what the first copy has
  CHECK(kept.changed(k_page) == Words(6));
  kept.note_run();
  memory[k_page] = 5;
  memory[6 * k_page] = 0;                       // as in the first copy, but not in the last
  CHECK(kept.changed(k_page) == Words({0, 1, 0, 0, 1, 0}));
  kept.put_back();
  CHECK(memory[k_page] == 0 && memory[2 * k_page] == 1);
}

void what_is_not_written_is_not_copied() {
  WorkerPool pool(1);
  constexpr std::uint64_t k_many = 16 * k_pages;  // the kernel's count of pages is not exact
  Memory memory(k_many);
  std::memset(&memory[0], 1, k_many * k_page);
  KeptMemory kept(pool);
  kept.add(memory.address(), k_many * k_page);
  kept.copy_before_writes();
  const std::uint64_t before = own_pages();
  CHECK(kept.keep());
  kept.note_write(memory.address(), k_page);
  CHECK(own_pages() < before + k_many / 4);
}

// What is written is copied once.
void copies_are_made_before_writes() {
  WorkerPool pool(1);
  Memory memory;
  KeptMemory kept(pool);
  kept.add(memory.address(700 * k_page), 300 * k_page - 7);
  kept.add(memory.address(100), 600 * k_page);
  std::memset(&memory[0], 1, 500 * k_page);
  kept.copy_before_writes();
  CHECK(kept.keep());
  CHECK(kept.cover(memory.address(100), 600 * k_page));
  CHECK(kept.changed(256 * k_page) == Words(5));
  kept.note_write(memory.address(k_page), 2 * k_page);
  memory[k_page] = 2;
  memory[3 * k_page - 1] = 3;
  kept.note_write(memory.address(999 * k_page), 16 * k_page);    // over the end, of pages that nobody has touched
  memory[999 * k_page] = 4;
  CHECK(kept.changed(256 * k_page) == Words({0, 1, 1, 0, 0}));
  kept.note_write(memory.address(k_page), 2 * k_page);           // once more: the first copy stays
  memory[2 * k_page] = 5;
  CHECK(kept.keep());
  CHECK(kept.changed(256 * k_page) == Words(5));
  kept.put_back();
  CHECK(memory[k_page] == 1 && memory[2 * k_page] == 1 && memory[3 * k_page - 1] == 1 && memory[999 * k_page] == 4);
  kept.note_write(memory.address(), 4 * k_page);                 // from before the part on
  memory[100] = 6;
  memory[99] = 6;
  kept.put_back();
  CHECK(memory[100] == 1 && memory[99] == 6);
  CHECK(kept.changed(256 * k_page) == Words({0, 0, 1, 0, 0}));   // other than in the last copy
}

void threads_tell_of_the_same_pages() {
  WorkerPool pool(1);
  Memory memory;
  std::memset(&memory[0], 1, k_pages * k_page);
  KeptMemory kept(pool);
  kept.add(memory.address(), k_pages * k_page);
  kept.copy_before_writes();
  CHECK(kept.keep());
  CHECK(kept.cover(memory.address(), k_pages * k_page));
  constexpr std::uint64_t k_block = 16 * k_page;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t at = 0; at < k_pages * k_page; at += k_block) {
        kept.note_write(memory.address(at), k_block);
        for (std::uint64_t i = thread; i < k_block; i += 4 * 64) memory[at + i] = 2;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  kept.put_back();
  for (std::uint64_t i = 0; i < k_pages * k_page; ++i) CHECK(memory[i] == 1);
}

}  // namespace

int main() {
  pages_far_apart_take_no_more_memory_than_they_have();
  what_nobody_has_touched_is_told();
  a_changed_byte_marks_its_piece_alone();
  a_later_copy_is_compared_with_and_the_first_one_put_back();
  a_part_of_a_page_is_put_back_alone();
  only_what_may_have_been_written_is_looked_at();
  what_is_not_written_is_not_copied();
  copies_are_made_before_writes();
  threads_tell_of_the_same_pages();
  return kerncap::test::exit_code();
}

// The memory file: pools, zeroed pages, and buffers that another process still uses.
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "check.hpp"
#include "softgpu/device/memory_file.hpp"

using namespace kerncap::softgpu;

namespace {

constexpr std::uint64_t k_mib = 1 << 20;

[[nodiscard]] std::shared_ptr<MemoryFile> make(std::uint64_t vram_bytes = 16 * k_mib) {
  auto file = MemoryFile::create(2, vram_bytes, 64 * k_mib);
  CHECK(file.ok());
  return file.value();
}

void pools_have_limits_of_their_own() {
  const auto file = make();
  CHECK(file->available_bytes(0) == 16 * k_mib && file->available_bytes(2) == 64 * k_mib);
  auto first = file->allocate(0, 10 * k_mib);
  CHECK(first != nullptr && file->available_bytes(0) == 6 * k_mib);
  CHECK(file->allocate(0, 10 * k_mib) == nullptr);
  CHECK(file->allocate(1, 10 * k_mib) != nullptr);
  first.reset();
  CHECK(file->allocate(0, 16 * k_mib) != nullptr);
}

void buffers_are_apart_and_zero_when_reused() {
  const auto file = make();
  std::vector<std::shared_ptr<Pages>> buffers;
  for (int i = 0; i < 100; ++i) {
    buffers.push_back(file->allocate(0, 4096 * (1 + i % 7)));
    CHECK(buffers.back() != nullptr);
    std::memset(buffers.back()->host(), i + 1, buffers.back()->size_bytes());
  }
  for (int i = 0; i < 100; ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(buffers[i]->host());
    CHECK(bytes[0] == i + 1 && bytes[buffers[i]->size_bytes() - 1] == i + 1);
  }
  // Free every other one, then all: fragments join again.
  for (int i = 0; i < 100; i += 2) buffers[i].reset();
  buffers.clear();
  const auto whole = file->allocate(0, 16 * k_mib);
  CHECK(whole != nullptr);
  const auto* words = reinterpret_cast<const std::uint64_t*>(whole->host());
  std::uint64_t any = 0;
  for (std::uint64_t i = 0; i < whole->size_bytes() / 8; ++i) any |= words[i];
  CHECK(any == 0);
}

void fragments_are_no_reason_to_fail() {
  const auto file = make();
  std::vector<std::shared_ptr<Pages>> buffers;
  while (auto buffer = file->allocate(0, 64 * 1024)) buffers.push_back(std::move(buffer));
  for (std::size_t i = 0; i < buffers.size(); i += 2) buffers[i].reset();
  CHECK(file->allocate(0, 4 * k_mib) != nullptr);
}

void another_process_keeps_what_it_imported() {
  const auto owner = make();
  auto buffer = owner->allocate(0, 2 * k_mib);
  const std::uint64_t offset = buffer->offset();
  std::memcpy(buffer->host(), "shared", 7);
  CHECK(owner->find(offset) == buffer);
  buffer->record().size_bytes = buffer->size_bytes();

  const int handle = owner->open_handle(offset, true);
  CHECK(handle >= 0 && owner->is_handle(handle) && lseek(handle, 0, SEEK_CUR) == static_cast<off_t>(offset));
  auto opened = MemoryFile::open_foreign(handle);
  CHECK(opened.ok());
  const auto foreign = opened.value();
  close(handle);
  CHECK(foreign->find(offset + 4096) == nullptr);  // never exported
  auto imported = foreign->find(offset);
  CHECK(imported != nullptr && imported->size_bytes() == 2 * k_mib && foreign->find(offset) == imported);
  CHECK(std::strcmp(reinterpret_cast<const char*>(imported->host()), "shared") == 0);

  buffer.reset();
  CHECK(owner->available_bytes(0) == 14 * k_mib);  // not given back while it is in use
  CHECK(std::strcmp(reinterpret_cast<const char*>(imported->host()), "shared") == 0);
  imported.reset();
  const auto all = owner->allocate(0, 16 * k_mib);
  CHECK(all != nullptr);
}

// As a program does that closes all: what it opens next may have the number.
void a_file_under_the_number_of_ours_is_left_alone() {
  char path[] = "/tmp/softgpu-test-XXXXXX";
  const int theirs = mkstemp(path);
  unlink(path);
  const int number = dup(theirs);   // the memory file's own is the next one
  close(number);
  const auto file = make();
  auto buffer = file->allocate(0, k_mib);
  const std::uint64_t offset = buffer->offset();
  std::memset(buffer->host(), 1, k_mib);
  CHECK(file->is_handle(number));
  CHECK(dup2(theirs, number) == number);
  CHECK(ftruncate(theirs, static_cast<off_t>(offset + k_mib)) == 0);
  CHECK(pwrite(theirs, "theirs", 7, static_cast<off_t>(offset)) == 7);
  CHECK(file->open_handle(0, true) == -1);
  buffer.reset();
  char bytes[7] = {};
  CHECK(pread(theirs, bytes, 7, static_cast<off_t>(offset)) == 7 && std::strcmp(bytes, "theirs") == 0);
  const auto again = file->allocate(0, 16 * k_mib);
  CHECK(again != nullptr && *again->host() == std::byte{0});
  close(theirs);
}

void other_files_are_refused() {
  char path[] = "/tmp/softgpu-test-XXXXXX";
  const int fd = mkstemp(path);
  unlink(path);
  CHECK(!MemoryFile::open_foreign(fd).ok());
  CHECK(ftruncate(fd, 1 << 20) == 0);
  CHECK(!MemoryFile::open_foreign(fd).ok());
  close(fd);
  CHECK(!MemoryFile::open_foreign(-1).ok());
}

}  // namespace

int main() {
  pools_have_limits_of_their_own();
  buffers_are_apart_and_zero_when_reused();
  fragments_are_no_reason_to_fail();
  another_process_keeps_what_it_imported();
  a_file_under_the_number_of_ours_is_left_alone();
  other_files_are_refused();
  return test::exit_code();
}

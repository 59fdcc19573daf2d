// Stores to doorbells are noticed, also once the program has closed the descriptor by which they are watched.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "check.hpp"
#include "softgpu/device/clock.hpp"
#include "softgpu/device/doorbell_watch.hpp"

using namespace kerncap::softgpu;
using Watch = DoorbellWatch::Watch;

namespace {

constexpr std::uint64_t k_page_bytes = 4096;

// A doorbell page as the program has it, and who watches it. The watch lives on: its thread is never joined.
struct Watched {
  std::atomic<unsigned> rung{0};
  DoorbellWatch& watch = *new DoorbellWatch([this] { rung.fetch_add(1); });
  std::uint64_t* page;

  Watched() {
    const int memory = memfd_create("doorbells", MFD_CLOEXEC);
    CHECK(ftruncate(memory, k_page_bytes) == 0);
    page = static_cast<std::uint64_t*>(mmap(nullptr, k_page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
    close(memory);
    watch.add(reinterpret_cast<std::uint64_t>(page), k_page_bytes);
  }
  [[nodiscard]] Watch arm() const {
    for (;;) {
      const Watch answer = watch.arm(read_clock_ns(CLOCK_MONOTONIC));
      if (answer != Watch::busy) return answer;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
};

template <typename Look>
[[nodiscard]] bool comes(Look look) {
  for (int i = 0; i < 5000; ++i) {
    if (look()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

[[nodiscard]] unsigned watching_threads() {
  unsigned count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    std::getline(file, name);
    count += name == "softgpu-doorbel" ? 1 : 0;
  }
  return count;
}

[[nodiscard]] int watching_descriptor() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone).string().find("userfaultfd") == std::string::npos) continue;
    return std::stoi(entry.path().filename().string());
  }
  return -1;
}

void a_store_is_noticed(Watched& watched) {
  const unsigned before = watched.rung.load();
  CHECK(watched.arm() == Watch::armed);
  *watched.page += 1;
  CHECK(comes([&] { return watched.rung.load() > before; }));
}

// What the program opens under the number is its own: nothing is read from it.
void a_closed_descriptor_ends_the_watch(Watched& watched) {
  CHECK(watched.arm() == Watch::armed);
  const unsigned before = watched.rung.load();
  const unsigned threads = watching_threads();
  int ends[2];
  CHECK(pipe(ends) == 0);
  const std::string text(2 * k_page_bytes / 64, 'x');
  CHECK(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  const int number = watching_descriptor();
  CHECK(dup2(ends[0], number) == number);
  *watched.page += 1;   // returns
  CHECK(comes([&] { return watched.rung.load() > before; }));
  CHECK(comes([&] { return watching_threads() + 1 == threads; }));
  int unread = 0;
  CHECK(ioctl(ends[0], FIONREAD, &unread) == 0 && unread == static_cast<int>(text.size()));
  CHECK(watched.arm() == Watch::impossible);
  *watched.page += 1;
  CHECK(fcntl(number, F_GETFD) >= 0);   // nor is it closed
}

}  // namespace

int main() {
  auto& watched = *new Watched();
  if (watched.arm() == Watch::impossible) return 77;   // meson: skipped, userfaultfd is forbidden here
  a_store_is_noticed(watched);
  a_store_is_noticed(watched);
  a_closed_descriptor_ends_the_watch(watched);
  return test::exit_code();
}

// The page table: splitting and joining against a table of single pages, and readers beside a writer.
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "check.hpp"
#include "softgpu/memory/address_space.hpp"

using namespace kerncap::softgpu;

namespace {

constexpr std::uint64_t k_page = 4096, k_pages = 64, k_base = 0x10000;

void agrees_with_single_pages() {
  struct Page {
    Rights rights = Rights::none;
    std::uint64_t delta = 0;
  };
  std::array<Page, k_pages> model{};
  AddressSpace space;
  std::mt19937 random(7);
  for (int round = 0; round < 800; ++round) {
    const std::uint64_t first = random() % k_pages, count = 1 + random() % (k_pages - first);
    const std::uint64_t begin = k_base + first * k_page, end = begin + count * k_page;
    const Page page{static_cast<Rights>(random() % 8), (random() % 3) * 0x100000};
    if (page.rights == Rights::none) {
      space.unmap(begin, end);
    } else {
      space.map({begin, end, page.delta, page.rights});
    }
    for (std::uint64_t i = first; i < first + count; ++i) model[i] = page.rights == Rights::none ? Page{} : page;

    const AddressSpace::View view(space);
    for (std::uint64_t i = 0; i < k_pages; ++i) {
      const std::uint64_t va = k_base + i * k_page + random() % k_page;
      const Extent extent = view.find(va);
      CHECK(extent.begin <= va && va < extent.end);
      CHECK(extent.rights == model[i].rights);
      if (extent.rights != Rights::none) CHECK(extent.host_delta == model[i].delta);
      // As far as it reaches, and no further: the neighbours differ.
      const std::uint64_t last = (extent.end - k_base) / k_page;
      if (last < k_pages && extent.rights != Rights::none) {
        CHECK(model[last].rights != model[i].rights || model[last].delta != model[i].delta);
      }
    }
  }
}

void generation_grows_when_something_is_taken_away() {
  AddressSpace space;
  const auto first = space.generation();
  space.map({k_base, k_base + k_page, 0, Rights::read});
  CHECK(space.generation() == first);
  space.map({k_base, k_base + k_page, 0, Rights::all});  // replaces: what a reader has cached is wrong
  CHECK(space.generation() > first);
  const auto second = space.generation();
  space.unmap(k_base + k_page, k_base + 2 * k_page);  // nothing there
  CHECK(space.generation() == second);
  space.unmap(k_base, k_base + k_page);
  CHECK(space.generation() > second);
}

// Memory is given back as soon as unmap() returns; a reader that still used it would read what came after.
void unmap_waits_for_views() {
  constexpr int k_readers = 3, k_rounds = 400;
  AddressSpace space;
  std::atomic<bool> end{false};
  std::atomic<std::uint64_t> wrong{0}, hits{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < k_readers; ++i) {
    readers.emplace_back([&] {
      while (!end.load()) {
        const AddressSpace::View view(space);
        const std::byte* host = view.host(k_base, sizeof(std::uint64_t), Rights::read);
        if (host == nullptr) continue;
        const auto* word = reinterpret_cast<const volatile std::uint64_t*>(host);
        for (int k = 0; k < 50; ++k) wrong += *word != 1;
        ++hits;
      }
    });
  }
  auto memory = std::make_unique<std::uint64_t[]>(k_page / 8);
  for (int round = 0; round < k_rounds || hits.load() < 100; ++round) {
    std::atomic_ref(memory[0]).store(1);
    space.map({k_base, k_base + k_page, reinterpret_cast<std::uint64_t>(memory.get()) - k_base, Rights::read});
    if (round % 16 == 0) std::this_thread::yield();
    space.unmap(k_base, k_base + k_page);
    std::atomic_ref(memory[0]).store(2);
  }
  end.store(true);
  for (auto& reader : readers) reader.join();
  CHECK(wrong.load() == 0);
}

}  // namespace

int main() {
  agrees_with_single_pages();
  generation_grows_when_something_is_taken_away();
  unmap_waits_for_views();
  return test::exit_code();
}

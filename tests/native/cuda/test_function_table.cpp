// The table that every launch is looked up in: while it grows, when modules go, and when it is full.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "cuda/function_table.hpp"

using namespace kerncap::cuda;

namespace {

const void* handle(std::uintptr_t number) { return reinterpret_cast<const void*>(number * 16); }

}  // namespace

int main() {
  auto table = std::make_unique<FunctionTable>();
  constexpr std::uint32_t k_count = 10000;
  std::vector<Kernel> kernels(k_count + 1);
  for (std::uint32_t i = 1; i <= k_count; ++i) {
    kernels[i].id = i;
    kernels[i].module = i % 2 + 1;
  }
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      for (std::uint32_t i = 1; i <= k_count; i += 97) {
        const Kernel* found = table->find(handle(i));
        CHECK(found == nullptr || found->id == i);
      }
    }
  });
  for (std::uint32_t i = 1; i <= k_count; ++i) CHECK(table->add(handle(i), &kernels[i]));
  for (std::uint32_t i = 1; i <= k_count; ++i) CHECK(table->find(handle(i)) == &kernels[i]);
  table->remove_module(1);
  for (std::uint32_t i = 1; i <= k_count; ++i) CHECK((table->find(handle(i)) == nullptr) == (i % 2 == 0));
  CHECK(table->add(handle(2), &kernels[2]));  // its handle is used again
  CHECK(table->find(handle(2)) == &kernels[2]);
  // Programs that load and unload for as long as they run: what was left is used again, by whatever handle.
  for (std::uint32_t round = 1; round < 50; ++round) {
    for (std::uint32_t i = 1; i <= k_count; ++i) kernels[i].module = 7;
    table->remove_module(1);
    table->remove_module(2);
    table->remove_module(7);
    for (std::uint32_t i = 1; i <= k_count / 2; ++i) CHECK(table->add(handle(i + round * k_count), &kernels[i]));
    for (std::uint32_t i = 1; i <= k_count / 2; ++i) CHECK(table->find(handle(i + round * k_count)) == &kernels[i]);
  }
  stop = true;
  reader.join();
  std::uint32_t more = 100 * k_count;
  while (table->add(handle(++more), &kernels[1])) CHECK(more < 200 * k_count);
  CHECK(table->find(handle(more)) == nullptr);  // full: unknown, and the search still ends
  return kerncap::test::exit_code();
}

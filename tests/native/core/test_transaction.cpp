// Transactions from many threads at once; the thread sanitizer runs this.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "core/memory_reader.hpp"
#include "core/memory_writer.hpp"
#include "core/transaction.hpp"
#include "scratch_store.hpp"

using namespace kerncap;
using core::Digest;
using core::MemoryReader;
using core::MemoryWriter;
using core::Transaction;
using test::Bytes;
using test::ScratchStore;

namespace {

constexpr std::size_t k_chunk = core::k_chunk_bytes;

Digest put_memory(Transaction& transaction, const Bytes& memory) {
  MemoryWriter writer(transaction, memory.size());
  CHECK(writer.append(memory).ok());
  const auto digest = writer.finish();
  CHECK(digest.ok());
  return digest.value();
}

bool reads(const ScratchStore& scratch, const Digest& digest, const Bytes& expected) {
  MemoryReader reader(scratch.open());
  const auto list = reader.list(digest);
  if (!list || list.value().size_bytes != expected.size()) return false;
  Bytes memory(expected.size(), std::byte{0x55});
  return reader.read(list.value(), memory, true).ok() && memory == expected;
}

std::size_t staged_folders(const ScratchStore& scratch) {
  const auto entries = std::filesystem::directory_iterator(scratch.path() / "tmp");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

void test_nothing_appears_before_publish() {
  const ScratchStore scratch;
  const Bytes memory = test::random_bytes(3 * k_chunk + 5);
  auto transaction = Transaction::begin(scratch.open(), 3).value();
  const Digest digest = put_memory(*transaction, memory);
  CHECK(!scratch.open()->has(digest));
  CHECK(transaction->publish({}).ok());
  CHECK(reads(scratch, digest, memory));
  transaction.reset();
  CHECK(staged_folders(scratch) == 0);
}

void test_pieces_of_any_length_make_one_list() {
  const ScratchStore scratch;
  Bytes memory = test::random_bytes(5 * k_chunk + 12345);
  std::fill(memory.begin() + k_chunk, memory.begin() + 3 * static_cast<std::ptrdiff_t>(k_chunk), std::byte{0});
  auto transaction = Transaction::begin(scratch.open(), 2).value();
  const Digest expected = put_memory(*transaction, memory);
  for (std::size_t length : {std::size_t{70'001}, k_chunk - 1, k_chunk, k_chunk + 1, 2 * k_chunk, memory.size()}) {
    MemoryWriter writer(*transaction, memory.size());
    for (std::size_t start = 0; start < memory.size(); start += length) {
      CHECK(writer.append(std::span(memory).subspan(start, std::min(length, memory.size() - start))).ok());
    }
    CHECK(writer.finish().value() == expected);
  }
  MemoryWriter zeros(*transaction, 2 * k_chunk + 7);
  CHECK(zeros.append_zeros(k_chunk / 2).ok());
  CHECK(zeros.append_zeros(3 * k_chunk / 2 + 7).ok());
  CHECK(zeros.finish().value() == put_memory(*transaction, Bytes(2 * k_chunk + 7)));
}

void test_many_threads_share_a_transaction() {
  const ScratchStore scratch;
  auto transaction = Transaction::begin(scratch.open(), 3).value();
  std::vector<Bytes> memories;
  for (std::uint64_t seed = 0; seed < 6; ++seed) memories.push_back(test::random_bytes(3 * k_chunk + 1, seed % 3));
  std::vector<Digest> digests(memories.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < memories.size(); ++i) {
      threads.emplace_back([&, i] { digests[i] = put_memory(*transaction, memories[i]); });
    }
  }
  CHECK(transaction->counts().new_bytes < 3 * (memories[0].size() + 1000));
  CHECK(transaction->publish({}).ok());
  for (std::size_t i = 0; i < memories.size(); ++i) CHECK(reads(scratch, digests[i], memories[i]));
}

void test_many_transactions_share_a_store_with_a_collector() {
  const ScratchStore scratch;
  const auto store = scratch.open();  // one for all: its lock is shared by threads
  std::atomic<bool> stop = false;
  std::atomic<int> exclusive = 0;
  std::atomic<int> rounds = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      threads.emplace_back([&, seed] {
        const Bytes memory = test::random_bytes(2 * k_chunk + 1, seed % 2);
        for (int i = 0; i < 8; ++i) {
          auto transaction = Transaction::begin(store, 2).value();
          const Digest digest = put_memory(*transaction, memory);
          const auto missing = transaction->require(std::span(&digest, 1));
          CHECK(missing.ok() && missing.value().empty());
          CHECK(exclusive.load() <= 1);
          CHECK(transaction->publish({}).ok());
          CHECK(reads(scratch, digest, memory));
        }
        stop = true;
      });
    }
    threads.emplace_back([&] {
      while (!stop) {
        auto lock = store->lock().exclusive(std::chrono::seconds(20));
        CHECK(lock.ok());
        CHECK(exclusive.fetch_add(1) == 0);
        CHECK(core::clear_dead_transactions(*store).ok());
        exclusive.fetch_sub(1);
        ++rounds;
      }
    });
  }
  CHECK(rounds > 0);
}

void test_the_exclusive_lock_waits_and_gives_up() {
  const ScratchStore scratch;
  const auto first = scratch.open();
  const auto second = scratch.open();
  {
    auto held = first->lock().shared();
    CHECK(held.ok());
    CHECK(first->lock().shared().ok());  // again in the same process
    const auto refused = second->lock().exclusive(std::chrono::milliseconds(20));
    CHECK(!refused.ok() && refused.error().code == core::ErrorCode::timeout);
  }
  auto held = second->lock().exclusive(std::chrono::milliseconds(0));
  CHECK(held.ok());
  std::atomic<bool> passed = false;
  std::jthread reader([&] {
    CHECK(first->lock().shared().ok());
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(!passed);
  { const auto released = std::move(held).value(); }
}

void test_a_forked_child_leaves_its_parents_transaction_alone() {
  const ScratchStore scratch;
  const Bytes memory = test::random_bytes(2 * k_chunk);
  auto transaction = Transaction::begin(scratch.open(), 1).value();
  const Digest digest = put_memory(*transaction, memory);
  const pid_t child = ::fork();
  if (child == 0) {
    transaction.reset();
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  CHECK(transaction->publish({}).ok());
  CHECK(reads(scratch, digest, memory));
}

void test_a_dead_transaction_is_cleared_and_a_live_one_is_not() {
  const ScratchStore scratch;
  const auto store = scratch.open();
  std::filesystem::create_directory(scratch.path() / "tmp" / "dead");
  std::ofstream(scratch.path() / "tmp" / "dead" / "live").flush();
  std::ofstream(scratch.path() / "tmp" / "small-1").flush();
  auto live = Transaction::begin(store, 1).value();
  CHECK(staged_folders(scratch) == 1);
  const auto lock = store->lock().exclusive(std::chrono::milliseconds(0));
  CHECK(lock.ok());
  CHECK(core::clear_dead_transactions(*store).value() == 0);
  CHECK(staged_folders(scratch) == 1);
}

void test_after_discard_everything_is_refused() {
  const ScratchStore scratch;
  auto transaction = Transaction::begin(scratch.open(), 2).value();
  const Bytes memory = test::random_bytes(k_chunk);
  put_memory(*transaction, memory);
  transaction->discard();
  CHECK(staged_folders(scratch) == 0);
  core::ChunkDigests digests;
  CHECK(!transaction->put(memory).ok());
  CHECK(!transaction->put_file("/proc/self/exe").ok());
  CHECK(!transaction->put_chunks(memory, digests).ok());
  CHECK(!transaction->require({}).ok());
  CHECK(!transaction->read(core::digest_of(memory), 100).ok());
  CHECK(!transaction->publish({}).ok());
}

void test_parts_of_memory_can_be_read() {
  const ScratchStore scratch;
  const Bytes memory = test::random_bytes(3 * k_chunk + 9);
  auto transaction = Transaction::begin(scratch.open(), 2).value();
  const Digest digest = put_memory(*transaction, memory);
  CHECK(transaction->publish({}).ok());
  MemoryReader reader(scratch.open(), 2);
  const auto list = reader.list(digest);
  Bytes part(k_chunk + 9);
  CHECK(reader.read(list.value(), part, true, 2).ok());
  CHECK(std::equal(part.begin(), part.end(), memory.begin() + 2 * static_cast<std::ptrdiff_t>(k_chunk)));
  CHECK(!reader.read(list.value(), part, true, 1).ok());
  CHECK(!reader.read(list.value(), part, true, 3).ok());
  CHECK(!reader.read(list.value(), part, true, 5).ok());
}

void test_zeros_are_seen_whatever_their_alignment() {
  Bytes memory(3 * 4096 + 100);
  CHECK(core::all_zero({}));
  for (std::size_t start = 0; start < 20; ++start) CHECK(core::all_zero(std::span(memory).subspan(start)));
  for (std::size_t at : {std::size_t{0}, std::size_t{7}, std::size_t{4095}, std::size_t{4096}, memory.size() - 1}) {
    memory[at] = std::byte{0x80};
    CHECK(!core::all_zero(memory));
    memory[at] = std::byte{0};
  }
}

}  // namespace

int main() {
  test_nothing_appears_before_publish();
  test_pieces_of_any_length_make_one_list();
  test_many_threads_share_a_transaction();
  test_many_transactions_share_a_store_with_a_collector();
  test_the_exclusive_lock_waits_and_gives_up();
  test_a_forked_child_leaves_its_parents_transaction_alone();
  test_a_dead_transaction_is_cleared_and_a_live_one_is_not();
  test_after_discard_everything_is_refused();
  test_parts_of_memory_can_be_read();
  test_zeros_are_seen_whatever_their_alignment();
  return test::exit_code();
}

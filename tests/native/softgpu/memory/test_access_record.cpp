// Bytes that are read and written, counted once each: across words and ranges, by several threads, in either order.
#include <thread>
#include <vector>

#include "../../check.hpp"
#include "softgpu/memory/access_record.hpp"
#include "softgpu/memory/recorded_reads.hpp"

using kerncap::softgpu::AccessRange;
using kerncap::softgpu::AccessRecord;

namespace {

constexpr std::uint64_t k_base = 0x7F00'0000'0000;

bool is(const AccessRecord::Count& count, std::uint64_t read, std::uint64_t written) {
  return count.read_bytes == read && count.written_bytes == written;
}

void test_each_byte_counts_once() {
  const std::vector<AccessRange> ranges{{k_base, k_base + 1000}};
  AccessRecord record(ranges);
  std::size_t hint = 0;
  CHECK(record.is_whole());
  for (int i = 0; i < 3; ++i) record.read(k_base + 60, 8, hint);  // in two words
  record.read(k_base + 64, 130, hint);                             // four bytes of them again
  record.write(k_base + 999, 1, hint);
  CHECK(is(record.counts()[0], 134, 1));
}

void test_what_was_written_before_is_not_read() {
  const std::vector<AccessRange> ranges{{k_base, k_base + 64}};
  AccessRecord record(ranges);
  std::size_t hint = 0;
  record.write(k_base, 8, hint);
  record.read(k_base, 16, hint);
  record.write(k_base + 8, 8, hint);
  CHECK(is(record.counts()[0], 8, 16));
}

void test_ranges_are_apart_and_what_lies_between_does_not_count() {
  const std::vector<AccessRange> ranges{{k_base, k_base + 10}, {k_base + 10, k_base + 20}, {k_base + 1'000'000, k_base + 2'000'000}};
  AccessRecord record(ranges);
  std::size_t hint = 0;
  record.write(k_base - 4, 28, hint);
  record.read(k_base + 999'990, 20, hint);
  record.read(k_base + 1'999'990, 20, hint);
  record.read(k_base + 5'000'000, 4, hint);
  record.read(k_base + 12, 4, hint);
  hint = 77;
  record.read(k_base + 1'500'000, 4, hint);
  const std::vector<AccessRecord::Count> counts = record.counts();
  CHECK(is(counts[0], 0, 10));
  CHECK(is(counts[1], 0, 10));
  CHECK(is(counts[2], 24, 0));
}

void test_several_threads_lose_nothing() {
  constexpr std::uint64_t k_bytes = 1 << 20;
  const std::vector<AccessRange> ranges{{k_base, k_base + k_bytes}};
  AccessRecord record(ranges);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&record, i] {
      std::size_t hint = 0;
      for (std::uint64_t at = i; at < k_bytes; at += 4) record.write(k_base + at, 1, hint);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(is(record.counts()[0], 0, k_bytes));
}

void test_reads_are_left_out_where_nobody_wants_them() {
  const std::vector<AccessRange> ranges{{k_base, k_base + 64}};
  AccessRecord record(ranges);
  std::size_t hint = 0;
  kerncap::softgpu::g_records_reads = false;
  record.read(k_base, 4, hint);
  record.write(k_base + 4, 4, hint);
  kerncap::softgpu::g_records_reads = true;
  CHECK(is(record.counts()[0], 0, 4));
}

void test_nothing_to_record_is_not_whole() {
  const std::vector<AccessRange> none;
  AccessRecord record(none);
  std::size_t hint = 0;
  record.read(k_base, 4, hint);
  CHECK(!record.is_whole());
  CHECK(record.counts().empty());
}

}  // namespace

int main() {
  test_each_byte_counts_once();
  test_what_was_written_before_is_not_read();
  test_ranges_are_apart_and_what_lies_between_does_not_count();
  test_several_threads_lose_nothing();
  test_reads_are_left_out_where_nobody_wants_them();
  test_nothing_to_record_is_not_whole();
  return kerncap::test::exit_code();
}

// A program with a capture library inside, without the GPU: does with the channel what its arguments say, in
// order, so that a test can be the collector.
//
//   every            sends each message once, with values that a test can tell apart
//   select           announces a module of two kernels and prints what is wanted of it
//   fact KEY VALUE   says something about the machine
//   stream BYTES     sends a stream of that many bytes: byte i is i * 131 >> 5
//   noise BYTES      sends a stream of that many bytes that nothing compresses, at next to no cost: a device's copies
//                    would not use the processor either
//   records COUNT    writes that many dispatch records
//   fork             forks; the child waits for its standard input's end, and tries to send
//   die              ends by SIGKILL
//   wait             waits until the collector wants no more, and says why
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "capture/channel.hpp"

using namespace kerncap::capture;

namespace {

void send_every(Channel& channel) {
  const std::uint64_t grid[3] = {std::uint64_t{5} << 32, 2, 3};
  const std::uint32_t block[3] = {64, 1, 1};
  const std::byte bytes[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  channel.send(Message(Up::facts).u32(0).u32(2).text("name").text("a GPU").text("empty").text(""));
  channel.send(Message(Up::module).u64(1).u32(0).u64(3).u64(0x7000).u64(0x2000).text("file://x"));
  channel.send(Message(Up::kernels).u64(1).u32(2).u32(10).text("_Z1av.kd").u32(11).text("b.kd"));
  channel.send(Message(Up::variables).u64(1).u32(1).u64(0x7100).u64(8).u32(1).text("table"));
  channel.send(Message(Up::capture)
                   .u64(5).u32(0).u32(10).u64(1).u32(0).u32(2).u64(77).u64(3)
                   .grid(grid).dim3(block).u32(256).u32(16).u64(0x9000).u32(1).bytes(bytes).bytes(bytes));
  channel.send(Message(Up::regions)
                   .u64(5).u32(1)
                   .u32(0).u32(static_cast<std::uint32_t>(MemoryKind::host_pinned)).u32(k_no_device).u32(k_region_read_only)
                   .u64(0x10000).u64(0x1000).u64(1).u64(0).u64(4096).u32(0).u64(0));
  channel.send(Message(Up::zero).u32(1).u64(4096));
  channel.send(Message(Up::same).u32(1).u64(4096));
  channel.send(Message(Up::done).u64(5).u64(1000).u64(1).u64(2).u64(3).u64(4).u64(5));
  channel.send(Message(Up::failed).u64(k_no_capture).u32(1).text("why"));
  channel.send(Message(Up::note).u32(2).text("mind this"));
  channel.send(Message(Up::module_gone).u64(1));
}

void select(Channel& channel) {
  channel.send(Message(Up::module).u64(9).u32(0).u64(0).u64(0).u64(0).text(""));
  channel.send(Message(Up::kernels).u64(9).u32(2).u32(100).text("first.kd").u32(101).text("second.kd"));
  const Selection selection = channel.select(9);
  printf("want_code %d\n", selection.want_code);
  for (const auto& match : selection.matches) printf("match %u %u\n", match.kernel, match.rule);
}

void fill_with_pattern(std::byte* slot, std::uint64_t begin, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) slot[i] = static_cast<std::byte>((begin + i) * 131 >> 5);
}

// Slots keep what they hold: each is filled once, and then only a word in each half mebibyte is new.
void fill_with_noise(std::byte* slot, std::uint64_t begin, std::uint64_t bytes) {
  std::uint64_t word;
  memcpy(&word, slot + 8, sizeof word);
  for (std::uint64_t i = 0; word == 0 && i + 8 <= bytes; i += 8) {
    std::uint64_t x = (begin + i + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9ull;
    memcpy(slot + i, &x, sizeof x);
  }
  for (std::uint64_t i = 0; i + 8 <= bytes; i += 512 << 10) {
    word = begin + i + 1;
    memcpy(slot + i, &word, sizeof word);
  }
}

template <typename Fill>
void stream(Channel& channel, std::uint64_t bytes, Fill fill) {
  channel.send(Message(Up::open).u32(1).u32(1).u64(k_no_capture).u64(1).u64(bytes));
  for (std::uint64_t done = 0; done < bytes;) {
    const auto slot = channel.acquire_slot(std::chrono::steady_clock::now() + channel.wait_limit());
    if (!slot) {
      printf("no slot\n");
      return;
    }
    const std::uint64_t piece = std::min<std::uint64_t>(channel.slot_bytes(), bytes - done);
    fill(channel.slot(*slot).data(), done, piece);
    channel.send(Message(Up::data).u32(1).u32(*slot).u32(static_cast<std::uint32_t>(piece)));
    done += piece;
  }
  channel.send(Message(Up::close).u32(1));
}

void records(Channel& channel, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Record record{};
    record.kernel = static_cast<std::uint32_t>(i % 7);
    record.grid_work_items[0] = 256;
    record.grid_work_items[1] = record.grid_work_items[2] = 1;
    record.block[0] = 64;
    record.block[1] = record.block[2] = 1;
    record.start_ns = i;
    record.end_ns = i + 10 + i % 7;
    channel.push_record(record);
  }
}

void fork_a_child(Channel& channel) {
  if (fork() != 0) return;
  channel.abandon_in_child();
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  _exit(channel.send(Message(Up::note).u32(1).text("from the child")) ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto connected = Channel::connect(getenv("KERNCAP_SOCKET"), "hsa");
  if (!connected) {
    printf("error %s\n", connected.error().message.c_str());
    return 3;
  }
  Channel& channel = *connected.value();
  for (int i = 1; i < argc; ++i) {
    const std::string_view what = argv[i];
    if (what == "every") send_every(channel);
    if (what == "select") select(channel);
    if (what == "fact") {
      channel.send(Message(Up::facts).u32(k_no_device).u32(1).text(argv[i + 1]).text(argv[i + 2]));
      i += 2;
    }
    if (what == "stream") stream(channel, strtoull(argv[++i], nullptr, 10), fill_with_pattern);
    if (what == "noise") stream(channel, strtoull(argv[++i], nullptr, 10), fill_with_noise);
    if (what == "records") records(channel, strtoull(argv[++i], nullptr, 10));
    if (what == "refuse") {
      channel.send(Message(Up::failed).u64(k_no_capture).u32(static_cast<std::uint32_t>(FailureCode::refused)).text("why"));
    }
    if (what == "fork") fork_a_child(channel);
    if (what == "die") raise(SIGKILL);
    if (what == "wait") {
      while (channel.active()) usleep(1000);
      printf("%s\n", channel.connected() ? "stopped" : "disconnected");
    }
  }
  fflush(stdout);
}

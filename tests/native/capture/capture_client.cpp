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
//   notes            sends notes until one is not taken
//   lose             closes all descriptors from 3 on, and sends a note
//   sleep            until it is killed
//   tick             alone: a timer interrupts its calls ten times a second, from before it connects
//   fork             forks; the child waits for its standard input's end, and tries to send
//   die              ends by SIGKILL
//   wait             waits until the collector wants no more, and says why
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "capture/channel.hpp"

using namespace kerncap::capture;

namespace {

void send_every(Channel& channel) {
  const std::byte bytes[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  const messages::Cost cost{.duration_ns = 1000, .drain_ns = 1, .pre_copy_ns = 2, .post_copy_ns = 3, .held_ns = 4, .copied_bytes = 5};
  channel.send(messages::Facts{.scope = 0, .facts = {{"name", "a GPU"}, {"empty", ""}}});
  channel.send(messages::Module{.module = 1, .load_address = 0x7000, .load_bytes = 0x2000, .uri = "file://x"});
  channel.send(messages::Kernels{.module = 1, .kernels = {{10, "_Z1av.kd"}, {11, "b.kd"}}});
  channel.send(messages::Variables{.module = 1, .variables = {{0x7100, 8, k_variable_is_const, "table"}}});
  channel.send(messages::Capture{.capture = 5,
                                 .kernel = 10,
                                 .module = 1,
                                 .queue = 2,
                                 .index_in_process = 77,
                                 .index_of_kernel = 3,
                                 .grid_work_items = {std::uint64_t{5} << 32, 2, 3},
                                 .block_work_items = {64, 1, 1},
                                 .group_bytes = 256,
                                 .private_bytes = 16,
                                 .kernarg_address = 0x9000,
                                 .flags = k_capture_from_batch,
                                 .kernarg = bytes,
                                 .packet = bytes});
  channel.send(messages::Regions{.capture = 5,
                                 .regions = {{.kind = MemoryKind::host_pinned,
                                              .device = k_no_device,
                                              .flags = k_region_read_only,
                                              .base = 0x10000,
                                              .size_bytes = 0x1000,
                                              .access = 1,
                                              .align = 4096}}});
  channel.send(messages::Zero{.stream = 1, .size_bytes = 4096});
  channel.send(messages::Same{.stream = 1, .size_bytes = 4096});
  channel.send(messages::Done{.capture = 5, .cost = cost});
  channel.send(messages::Failed{.capture = k_no_capture, .code = FailureCode::timeout, .reason = "why"});
  channel.send(messages::Note{.text = "mind this"});
  channel.send(messages::ModuleGone{.module = 1});
}

void select(Channel& channel) {
  channel.send(messages::Module{.module = 9});
  channel.send(messages::Kernels{.module = 9, .kernels = {{100, "first.kd"}, {101, "second.kd"}}});
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
  channel.send(
      messages::Open{.stream = 1, .kind = StreamKind::code, .capture = k_no_capture, .index = 1, .size_bytes = bytes});
  for (std::uint64_t done = 0; done < bytes;) {
    const auto slot = channel.acquire_slot(std::chrono::steady_clock::now() + channel.wait_limit());
    if (!slot) {
      printf("no slot\n");
      return;
    }
    const std::uint64_t piece = std::min<std::uint64_t>(channel.slot_bytes(), bytes - done);
    fill(channel.slot(*slot).data(), done, piece);
    channel.send(messages::Data{.stream = 1, .slot = *slot, .size_bytes = static_cast<std::uint32_t>(piece)});
    done += piece;
  }
  channel.send(messages::Close{.stream = 1});
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
  _exit(channel.send(messages::Note{.text = "from the child"}) ? 1 : 0);
}

void tick() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 100'000}, {0, 100'000}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string_view("tick")) tick();
  const auto connected = Channel::connect(getenv("KERNCAP_SOCKET"), "hsa");
  if (!connected) {
    printf("error %s\n", connected.error().message.c_str());
    return 3;
  }
  Channel& channel = *connected.value();
  for (int i = 1; i < argc; ++i) {
    const std::string_view what = argv[i];
    if (what == "every") send_every(channel);
    if (what == "notes") {
      while (channel.send(messages::Note{.text = "mind this"})) {
      }
    }
    if (what == "select") select(channel);
    if (what == "fact") {
      channel.send(messages::Facts{.scope = k_no_device, .facts = {{argv[i + 1], argv[i + 2]}}});
      i += 2;
    }
    if (what == "stream") stream(channel, strtoull(argv[++i], nullptr, 10), fill_with_pattern);
    if (what == "noise") stream(channel, strtoull(argv[++i], nullptr, 10), fill_with_noise);
    if (what == "records") records(channel, strtoull(argv[++i], nullptr, 10));
    if (what == "refuse") {
      channel.send(messages::Failed{.capture = k_no_capture, .code = FailureCode::refused, .reason = "why"});
    }
    if (what == "lose") {
      closefrom(3);
      channel.send(messages::Note{.text = "to nobody"});
    }
    if (what == "sleep") pause();
    if (what == "fork") fork_a_child(channel);
    if (what == "die") raise(SIGKILL);
    if (what == "wait") {
      while (channel.active()) usleep(1000);
      printf("%s\n", channel.connected() ? "stopped" : "disconnected");
    }
  }
  fflush(stdout);
}

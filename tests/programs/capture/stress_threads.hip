// One kernel runs again and again on memory of each kind, while eight threads make and give up streams, memory of every
// kind, events and graphs, and run kernels on it. usage: stress_threads LAUNCHES SEED
//
// What holds at every moment at which no dispatch and no copy is under way:
// - the target's buffers hold the number of the launch in each word: n before launch n, n + 1 after it;
// - a buffer of a thread begins with a mark, and holds one number in each word. It is written by whole dispatches only;
// - the buffers of a chain are written one after the other, in their order: none is behind the next one, and the first
//   one is ahead of the last one by at most one.
// Prints the target's buffers, "target KIND ADDRESS BYTES", and what the program itself holds once a quarter of the
// launches is done and at the end, "held WHEN THREADS FILES RESIDENT_KIB FREE_DEVICE_BYTES".
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "hip_check.hpp"
#include "memory_of_kinds.hpp"

namespace {

using Word = unsigned;
// A buffer's first words: the mark in two, the number of all words, chain << 8 | place in it.
constexpr Word k_mark = 0x5712e55au, k_second_mark = 0x0b0ff3e5u;
constexpr std::size_t k_head_words = 4;
constexpr Word k_no_chain = 0xffffff00u;
constexpr unsigned k_block = 256;

__global__ void target(Word* const* buffers, int count, int words, Word launch) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= words) return;
  for (int b = 0; b < count; ++b) buffers[b][i] = buffers[b][i] == launch ? launch + 1 : 0xdeadu;
}

__global__ void put(Word* buffer, Word words, Word name, Word value) {
  const Word i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words) return;
  const Word head[] = {k_mark, k_second_mark, words, name};
  buffer[i] = i < 4 ? head[i] : value;
}

__global__ void step(Word* buffer, Word words) {
  const Word i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 4 && i < words) buffer[i] += 1;
}

__global__ void erase(Word* buffer, Word words) {
  const Word i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words) buffer[i] = 0;
}

unsigned blocks_of(Word words) { return (words + k_block - 1) / k_block; }

// One of the threads: each round does one of these things with streams and memory of its own.
class Worker {
 public:
  Worker(Word number, unsigned seed, std::atomic<unsigned>& wrong)
      : m_random(seed * 100 + number), m_wrong(wrong), m_number(number) {}

  void round() {
    switch (m_random.whole(0, 4)) {
      case 0: return short_lived();
      case 1: return chain_in_one_stream();
      case 2: return chain_over_streams();
      default: return chain_in_a_graph();
    }
  }
  [[nodiscard]] unsigned rounds_of(int what) const { return m_done[what]; }

 private:
  hipStream_t new_stream() {
    hipStream_t stream;
    HIP_OK(hipStreamCreateWithFlags(&stream, m_random.whole(0, 2) == 0 ? hipStreamDefault : hipStreamNonBlocking));
    return stream;
  }
  Memory new_memory(hipStream_t stream) {
    const auto kind = static_cast<Kind>(m_random.whole(0, k_kinds));
    return Memory(kind, k_page * static_cast<std::size_t>(m_random.whole(1, 5)), stream);
  }
  Word new_chain() { return m_number << 16 | (m_chains++ & 0xff) << 8; }
  static void put_in(const Memory& memory, hipStream_t stream, Word name, Word value) {
    put<<<blocks_of(memory.words()), k_block, 0, stream>>>(memory.device, memory.words(), name, value);
  }
  static void step_on(const Memory& memory, hipStream_t stream) {
    step<<<blocks_of(memory.words()), k_block, 0, stream>>>(memory.device, memory.words());
  }
  // Its last word, as the host sees it once the stream is at rest.
  void expect(const Memory& memory, hipStream_t stream, Word value) {
    Word last = 0;
    HIP_OK(hipMemcpyAsync(&last, memory.device + memory.words() - 1, sizeof last, hipMemcpyDefault, stream));
    HIP_OK(hipStreamSynchronize(stream));
    if (last == value || m_wrong.fetch_add(1) >= 8) return;
    std::printf("%s holds %u, should hold %u\n", k_names[static_cast<int>(memory.kind)], last, value);
  }
  static void end(Memory& memory, hipStream_t stream) {
    erase<<<blocks_of(memory.words()), k_block, 0, stream>>>(memory.device, memory.words());
    memory.give_up(stream);
  }

  void short_lived() {
    hipStream_t stream = new_stream();
    Memory memory = new_memory(stream);
    const Word value = static_cast<Word>(m_random.whole(1, 1000));
    put_in(memory, stream, k_no_chain | m_number, value);
    step_on(memory, stream);
    if (m_random.whole(0, 2) == 0) expect(memory, stream, value + 1);
    end(memory, stream);
    HIP_OK(hipStreamDestroy(stream));   // it may still be at work
    ++m_done[0];
  }

  // First kernels, then copies: device memory to device memory, and from there to the host.
  void chain_in_one_stream() {
    hipStream_t stream = new_stream();
    const Word chain = new_chain();
    Memory third(m_random.whole(0, 2) == 0 ? Kind::pinned : Kind::vmem, 2 * k_page, stream);
    const std::size_t bytes = third.bytes;   // as its kind wants it
    Memory first(Kind::managed, bytes, stream);
    Memory second(Kind::device, bytes, stream);
    Memory* memories[] = {&first, &second, &third};
    for (Word place = 0; place < 3; ++place) put_in(*memories[place], stream, k_no_chain | m_number, 0);
    // They become a chain all at once: each holds the same number.
    HIP_OK(hipStreamSynchronize(stream));
    for (Word place = 0; place < 3; ++place) put_in(*memories[place], stream, chain | place, 0);
    const int steps = m_random.whole(2, 6);
    for (int i = 0; i < steps; ++i) {
      step_on(first, stream);
      step_on(second, stream);
      HIP_OK(hipMemcpyAsync(third.device + k_head_words, second.device + k_head_words,
                            bytes - k_head_words * sizeof(Word), hipMemcpyDefault, stream));
    }
    expect(third, stream, static_cast<Word>(steps));
    for (Memory* memory : memories) end(*memory, stream);
    HIP_OK(hipStreamDestroy(stream));
    ++m_done[1];
  }

  // One stream goes on behind the other by events.
  void chain_over_streams() {
    hipStream_t streams[] = {new_stream(), new_stream()};
    const Word chain = new_chain();
    Memory first(Kind::pinned, k_page, streams[0]);
    Memory second(Kind::device, 3 * k_page, streams[0]);
    put_in(first, streams[0], chain, 0);
    put_in(second, streams[0], chain | 1, 0);
    hipEvent_t events[2];
    for (hipEvent_t& event : events) {
      const unsigned flags = m_random.whole(0, 2) == 0 ? hipEventDefault : hipEventDisableTiming;
      HIP_OK(hipEventCreateWithFlags(&event, flags));
    }
    const int steps = m_random.whole(2, 6);
    for (int i = 0; i < steps; ++i) {
      step_on(first, streams[0]);
      HIP_OK(hipEventRecord(events[0], streams[0]));
      HIP_OK(hipStreamWaitEvent(streams[1], events[0], 0));
      step_on(second, streams[1]);
      HIP_OK(hipEventRecord(events[1], streams[1]));
      HIP_OK(hipStreamWaitEvent(streams[0], events[1], 0));
    }
    expect(second, streams[0], static_cast<Word>(steps));
    for (const hipEvent_t event : events) HIP_OK(hipEventDestroy(event));
    end(first, streams[0]);
    end(second, streams[0]);
    for (const hipStream_t stream : streams) HIP_OK(hipStreamDestroy(stream));
    ++m_done[2];
  }

  void chain_in_a_graph() {
    hipStream_t stream;
    HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    const Word chain = new_chain();
    Memory first(Kind::device, 2 * k_page, stream);
    Memory second(Kind::registered, k_page, stream);
    put_in(first, stream, chain, 0);
    put_in(second, stream, chain | 1, 0);
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    step_on(first, stream);
    step_on(second, stream);
    HIP_OK(hipStreamEndCapture(stream, &graph));
    HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    const int launches = m_random.whole(2, 6);
    for (int i = 0; i < launches; ++i) HIP_OK(hipGraphLaunch(executable, stream));
    expect(second, stream, static_cast<Word>(launches));
    HIP_OK(hipGraphExecDestroy(executable));
    HIP_OK(hipGraphDestroy(graph));
    end(second, stream);
    end(first, stream);
    HIP_OK(hipStreamDestroy(stream));
    ++m_done[3];
  }

  Random m_random;
  std::atomic<unsigned>& m_wrong;
  Word m_number;
  Word m_chains = 0;
  unsigned m_done[4] = {};
};

unsigned entries_of(const char* folder) {
  unsigned count = 0;
  DIR* list = opendir(folder);
  while (readdir(list) != nullptr) ++count;
  closedir(list);
  return count;
}

void print_held(const char* when) {
  std::size_t free_bytes = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  long pages[2] = {};
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(file, "%ld %ld", &pages[0], &pages[1]) != 2) std::abort();
  std::fclose(file);
  std::printf("held %s %u %u %ld %zu\n", when, entries_of("/proc/self/task"), entries_of("/proc/self/fd"),
              pages[1] * sysconf(_SC_PAGESIZE) / 1024, free_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned launches = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 20;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  constexpr unsigned k_threads = 8;
  constexpr Word k_words = 5 * k_page / sizeof(Word);
  Tally tally("stress_threads");
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  std::vector<Memory*> memories;
  DeviceArray<Word*> buffers(k_kinds);
  std::vector<Word*> addresses;
  for (int kind = 0; kind < k_kinds; ++kind) {
    memories.push_back(new Memory(static_cast<Kind>(kind), k_words * sizeof(Word), stream));
    addresses.push_back(memories.back()->device);
    HIP_OK(hipMemsetAsync(addresses.back(), 0, k_words * sizeof(Word), stream));
    std::printf("target %s %p %zu\n", k_names[kind], static_cast<void*>(addresses.back()), k_words * sizeof(Word));
  }
  HIP_OK(hipStreamSynchronize(stream));
  buffers.write(addresses);

  std::atomic<bool> stop{false};
  std::atomic<unsigned> wrong{0};
  std::atomic<unsigned> rounds{0};
  std::vector<Worker> workers;
  for (unsigned i = 0; i < k_threads; ++i) workers.emplace_back(i, seed, wrong);
  std::vector<std::thread> running;
  for (Worker& worker : workers) {
    running.emplace_back([&] {
      while (!stop.load()) {
        worker.round();
        rounds.fetch_add(1);
      }
    });
  }
  while (rounds.load() < 2 * k_threads) std::this_thread::yield();
  for (unsigned launch = 0; launch < launches; ++launch) {
    const int words = static_cast<int>(k_words);
    target<<<blocks_of(k_words), k_block, 0, stream>>>(buffers.get(), k_kinds, words, launch);
    HIP_OK(hipStreamSynchronize(stream));
    if (launch == launches / 4) print_held("early");
  }
  print_held("late");
  stop.store(true);
  for (std::thread& thread : running) thread.join();
  for (int kind = 0; kind < k_kinds; ++kind) {
    std::vector<Word> words(k_words);
    Memory* memory = memories[static_cast<std::size_t>(kind)];
    HIP_OK(hipMemcpy(words.data(), memory->device, k_words * sizeof(Word), hipMemcpyDefault));
    tally.equal(k_names[kind], words, std::vector<Word>(k_words, launches));
    memory->give_up(stream);
    delete memory;
  }
  HIP_OK(hipStreamDestroy(stream));
  tally.equal("wrong", 0, wrong.load(), 0u);
  unsigned done[4] = {};
  for (const Worker& worker : workers) {
    for (int what = 0; what < 4; ++what) done[what] += worker.rounds_of(what);
  }
  std::printf("rounds %u %u %u %u\n", done[0], done[1], done[2], done[3]);
  print_held("end");
  return tally.finish();
}

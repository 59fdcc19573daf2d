// Packets that no GPU can run: each stops its queue, and ROCr tells the queue's callback why. Other queues go on.
#include <atomic>
#include <functional>

#include "hsa_check.hpp"

namespace {

std::atomic<int> g_status{-1};

void on_error(hsa_status_t status, hsa_queue_t*, void*) { g_status = static_cast<int>(status); }

hsa_queue_t* make_queue(const Machine& machine) {
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_MULTI, on_error, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  return queue;
}

hsa_kernel_dispatch_packet_t dispatch(std::uint64_t kernel_object) {
  hsa_kernel_dispatch_packet_t packet{};
  packet.grid_size_x = packet.grid_size_y = packet.grid_size_z = 1;
  packet.workgroup_size_x = packet.workgroup_size_y = packet.workgroup_size_z = 1;
  packet.kernel_object = kernel_object;
  return packet;
}

}  // namespace

int main() {
  const Machine machine;
  Tally tally("bad_packets");

  // A descriptor in memory that the GPU may read but not execute: impossible in other ways, by what is written there.
  void* descriptor = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, 4096, 0, &descriptor));
  HSA_OK(hsa_amd_agents_allow_access(1, &machine.gpus[0].handle, nullptr, descriptor));
  const auto object = reinterpret_cast<std::uint64_t>(descriptor);

  hsa_queue_t* good = make_queue(machine);
  const auto expect_error = [&](const char* what, hsa_status_t wanted, const std::function<void(hsa_queue_t*)>& send) {
    hsa_queue_t* queue = make_queue(machine);
    g_status = -1;
    send(queue);
    const Signal never(1);
    for (int i = 0; g_status == -1 && i < 60000; ++i)
      hsa_signal_wait_scacquire(never, HSA_SIGNAL_CONDITION_LT, 1, 1000000, HSA_WAIT_STATE_BLOCKED);
    tally.equal(what, 0, g_status.load(), static_cast<int>(wanted));
    HSA_OK(hsa_queue_destroy(queue));
    // The others go on.
    const Signal done(1);
    hsa_barrier_and_packet_t packet{};
    packet.completion_signal = done;
    submit(good, packet, packet_header(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
    done.wait("another queue");
  };
  const auto kernel = [&](const hsa_kernel_dispatch_packet_t& packet, std::uint16_t dimensions = 3) {
    return [packet, dimensions](hsa_queue_t* queue) {
      submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), dimensions);
    };
  };

  const hsa_status_t invalid_packet = HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
  expect_error("agent dispatch", invalid_packet, [](hsa_queue_t* queue) {
    submit(queue, hsa_agent_dispatch_packet_t{}, packet_header(HSA_PACKET_TYPE_AGENT_DISPATCH, true), 0);
  });
  expect_error("unknown type", invalid_packet, [](hsa_queue_t* queue) {
    submit(queue, hsa_barrier_and_packet_t{}, 0x14d, 0);
  });
  expect_error("unknown vendor format", invalid_packet, [](hsa_queue_t* queue) {
    submit(queue, hsa_barrier_and_packet_t{}, packet_header(HSA_PACKET_TYPE_VENDOR_SPECIFIC, true), 0x7e);
  });
  expect_error("unknown condition", invalid_packet, [](hsa_queue_t* queue) {
    const Signal signal(1);
    hsa_amd_barrier_value_packet_t packet{};
    packet.signal = signal;
    packet.cond = static_cast<hsa_signal_condition32_t>(17);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_VENDOR_SPECIFIC, true), HSA_AMD_PACKET_TYPE_BARRIER_VALUE);
    hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, 100000000, HSA_WAIT_STATE_BLOCKED);
  });
  expect_error("PM4 that is none", invalid_packet, [](hsa_queue_t* queue) {
    submit(queue, hsa_barrier_and_packet_t{}, packet_header(HSA_PACKET_TYPE_VENDOR_SPECIFIC, true), 1);
  });

  expect_error("no dimension", HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, kernel(dispatch(object), 0));
  auto packet = dispatch(object);
  packet.grid_size_y = 0;
  expect_error("an empty grid", HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, kernel(packet));
  packet = dispatch(object);
  packet.workgroup_size_z = 0;
  expect_error("an empty work-group", HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, kernel(packet));
  packet = dispatch(object);
  packet.workgroup_size_x = 1025;
  expect_error("a huge work-group", HSA_STATUS_ERROR_INVALID_ARGUMENT, kernel(packet));
  packet = dispatch(object);
  packet.group_segment_size = 64 * 1024 + 1;
  expect_error("more LDS than there is", HSA_STATUS_ERROR_INVALID_ALLOCATION, kernel(packet));

  expect_error("no kernel", HSA_STATUS_ERROR_INVALID_CODE_OBJECT, kernel(dispatch(0)));
  expect_error("a kernel nowhere", HSA_STATUS_ERROR_INVALID_CODE_OBJECT, kernel(dispatch(0x123456789000)));
  std::memset(descriptor, 0xff, 4096);
  expect_error("an impossible descriptor", HSA_STATUS_ERROR_INVALID_CODE_OBJECT, kernel(dispatch(object)));

  // The whole ring overwritten while the queue is idle, and rung.
  expect_error("a ring full of noise", invalid_packet, [](hsa_queue_t* queue) {
    hsa_queue_add_write_index_screlease(queue, 64);
    Random random(3);
    auto* words = static_cast<std::uint32_t*>(queue->base_address);
    for (std::uint32_t i = 0; i < queue->size * 16; ++i) words[i] = static_cast<std::uint32_t>(random.bits()) | 0x80;
    hsa_signal_store_screlease(queue->doorbell_signal, 63);
  });

  HSA_OK(hsa_queue_destroy(good));
  return tally.finish();
}

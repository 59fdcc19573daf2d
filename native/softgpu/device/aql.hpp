// The packets and structures that ROCr and a GPU's packet processor share in memory: the HSA queuing language, and
// AMD's queue and signal. Own definitions, so that the software GPU builds without ROCr's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerncap::softgpu::aql {

inline constexpr std::uint64_t k_packet_bytes = 64;

// Header: type in bits 0-7, barrier in bit 8, then the fences.
enum class PacketType : std::uint8_t {
  vendor_specific = 0, invalid = 1, kernel_dispatch = 2, barrier_and = 3, agent_dispatch = 4, barrier_or = 5,
};
inline constexpr std::uint16_t k_header_barrier = 1U << 8;

// The byte after the header of a vendor packet.
enum class VendorFormat : std::uint8_t { pm4_ib = 1, barrier_value = 2 };

struct KernelDispatch {
  std::uint16_t header, setup;  // setup: number of dimensions in bits 0-1
  std::uint16_t workgroup_size[3], reserved0;
  std::uint32_t grid_size[3];
  std::uint32_t private_segment_size, group_segment_size;
  std::uint64_t kernel_object, kernarg_address, reserved2, completion_signal;
};

struct Barrier {
  std::uint16_t header, reserved0;
  std::uint32_t reserved1;
  std::uint64_t dep_signal[5], reserved2, completion_signal;
};

struct BarrierValue {
  std::uint16_t header;
  std::uint8_t format, reserved0;
  std::uint32_t reserved1;
  std::uint64_t signal;
  std::int64_t value, mask;
  std::uint32_t condition, reserved2;  // condition: 0 equal, 1 not equal, 2 less, 3 greater or equal
  std::uint64_t reserved3[2], completion_signal;
};

struct Pm4Buffer {
  std::uint16_t header;
  std::uint16_t format;
  std::uint32_t jump[4];  // INDIRECT_BUFFER: header, address low, address high, size in dwords in bits 0-19
  std::uint32_t dwords_remaining, reserved[8];
  std::uint64_t completion_signal;
};

union Packet {
  std::uint16_t header;
  KernelDispatch dispatch;
  Barrier barrier;
  BarrierValue barrier_value;
  Pm4Buffer pm4;
};
static_assert(sizeof(Packet) == k_packet_bytes && offsetof(KernelDispatch, completion_signal) == 56 &&
              offsetof(Barrier, completion_signal) == 56 && offsetof(BarrierValue, completion_signal) == 56 &&
              offsetof(Pm4Buffer, completion_signal) == 56);

// amd_signal_t. Its handle is its address.
struct Signal {
  std::int64_t kind, value;
  std::uint64_t event_mailbox_ptr;
  std::uint32_t event_id, reserved1;
  std::uint64_t start_ts, end_ts, queue_ptr;
  std::uint32_t reserved3[2];
};
static_assert(sizeof(Signal) == 64);

// amd_queue_t.
struct Queue {
  std::uint32_t type, features;
  std::uint64_t base_address, doorbell_signal;
  std::uint32_t size_packets, reserved0;
  std::uint64_t id;
  std::uint32_t caps, reserved1[3];
  std::uint64_t write_dispatch_id;
  std::uint32_t group_segment_aperture_base_hi, private_segment_aperture_base_hi, max_cu_id, max_wave_id;
  std::uint64_t max_legacy_doorbell_dispatch_id_plus_1;
  std::uint32_t legacy_doorbell_lock, reserved2[9];
  std::uint64_t read_dispatch_id;
  std::uint32_t read_dispatch_id_field_base_byte_offset, compute_tmpring_size, scratch_resource_descriptor[4];
  std::uint64_t scratch_backing_memory_location, scratch_backing_memory_byte_size;
  std::uint32_t scratch_wave64_lane_byte_size, queue_properties;
  std::uint64_t scratch_max_use_index, queue_inactive_signal;
  std::uint32_t reserved4[14];
};
static_assert(sizeof(Queue) == 256 && offsetof(Queue, write_dispatch_id) == 56 &&
              offsetof(Queue, read_dispatch_id) == 128 && offsetof(Queue, queue_inactive_signal) == 192);

inline constexpr std::uint32_t k_queue_profiling = 1U << 3;
inline constexpr std::uint32_t k_queue_scratch_once = 1U << 4;

// HsaUserContextSaveAreaHeader: where the driver reports what stopped a queue.
struct ContextSaveHeader {
  std::uint32_t offsets_and_sizes[6];
  std::uint64_t error_reason_ptr;  // 0: ROCr did not enable exceptions, and looks at queue_inactive_signal
  std::uint32_t error_event_id, reserved;
};
static_assert(offsetof(ContextSaveHeader, error_reason_ptr) == 24);

// What the packet processor stores in queue_inactive_signal; ROCr turns it into a status for the queue's callback.
enum class QueueError : std::uint32_t {
  scratch_wave64 = 1,       // not an error: more scratch memory is wanted
  invalid_dimension = 2,
  invalid_group_memory = 4,
  invalid_code = 8,
  invalid_packet = 32,
  group_too_large = 64,
  out_of_registers = 128,
  invalid_vendor_packet = 256,
  scratch_once_done = 512,  // nor is this: scratch for one dispatch only can be taken back
  scratch_wave32 = 1024,
  aperture_violation = 0x2000'0000,
  illegal_instruction = 0x4000'0000,
  trap = 0x8000'0000,
};

}  // namespace kerncap::softgpu::aql

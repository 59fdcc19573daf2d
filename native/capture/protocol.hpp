// What a capture library inside the user's program and the collector in our own process say to each other.
//
// Any process of the program connects to the Unix socket (SOCK_SEQPACKET) named by KERNCAP_SOCKET. Messages
// go both ways, one per packet; bulk data never does: it goes through one memfd per process that the
// collector makes and passes with its WELCOME. Both sides treat the other as untrusted: every count and
// offset is checked. The end of the socket is the end of the peer, however it died.
//
// All numbers are little-endian, nothing is padded:
//
//   message   = type:u32 body                              at most k_max_message_bytes
//   string    = length:u32 byte*length                     UTF-8 where it is text
//   pairs     = count:u32 (string string)*count
//   dim3      = x:u32 y:u32 z:u32
//   grid      = x:u64 y:u64 z:u64                          work-items: CUDA counts blocks, and those have many
//
// library -> collector
//   HELLO     = k_magic:u64 k_version:u32 pid:u32 backend:string
//   FACTS     = scope:u32 pairs                            scope: device index, or k_no_device = the machine
//   MODULE    = module:u64 device:u32 code_bytes:u64 load_address:u64 load_bytes:u64 uri:string
//   KERNELS   = module:u64 count:u32 (kernel:u32 name:string)*count        symbol names, mangled
//   VARIABLES = module:u64 count:u32 (address:u64 bytes:u64 flags:u32 name:string)*count
//   MODULE_END= module:u64                                 in capture mode answered by SELECTED
//   MODULE_GONE = module:u64
//   CAPTURE   = capture:u64 rule:u32 kernel:u32 module:u64 device:u32 queue:u32
//               index_in_process:u64 index_of_kernel:u64 grid_work_items:grid block:dim3
//               group_bytes:u32 private_bytes:u32 kernarg_address:u64 flags:u32 kernarg:string packet:string
//   REGIONS   = capture:u64 count:u32 region*count
//   region    = index:u32 kind:u32 device:u32 flags:u32 base:u64 bytes:u64 access:u64 host:u64 align:u64
//               piece:u32 module:u64                       access: bit i = device i; module: of code objects; piece:
//                                                          physical memory that mappings may share, 0: not known;
//                                                          a region without a PRE stream was left out
//   OPEN      = stream:u32 what:u32 capture:u64 index:u32 bytes:u64
//   DATA      = stream:u32 slot:u32 bytes:u32              in order of offset; the slot is the collector's now
//   ZERO      = stream:u32 bytes:u64                       the same, all zero
//   SAME      = stream:u32 bytes:u64                       the same as the pre-state there (post streams only)
//   CLOSE     = stream:u32
//   DONE      = capture:u64 duration_ns:u64 cost:(u64)*5   drain, pre copy, post copy, held (ns), copied bytes
//   READY     = as DONE, before the kernel is let go: all that is wanted is here, should it never end (with k_flag_no_post)
//   FAILED    = capture:u64 code:u32 reason:string         k_no_capture: the whole process cannot be captured
//   NOTE      = level:u32 text:string
//
// collector -> library
//   WELCOME   = k_magic:u64 k_version:u32 mode:u32 slot_count:u32 slot_bytes:u64 memory_bytes:u64
//               wait_ms:u32 flags:u32 rule_count:u32 rule*rule_count        + the memfd (SCM_RIGHTS)
//   rule      = first:u64 every:u64 count:u64 grid_blocks:dim3 block:dim3  0 = any; first counts from 0
//   SELECTED  = module:u64 flags:u32 count:u32 (kernel:u32 rule:u32)*count  in one or more messages
//   FREE      = slot:u32                                   the slot is the library's again
//   STOP      =                                            take no more captures; release what is held
//   REFUSED   = reason:string                              instead of WELCOME; go on without us
//
// The memfd (the control block is one page; slots and records are page-aligned):
//
//   control   = see struct Control below
//   records   = Record[k_record_capacity]                  ring, written by one thread, read by the collector
//   slots     = byte[slot_bytes] * slot_count
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kerncap::capture {

inline constexpr std::uint64_t k_magic = 0x31504143434E524Bull;  // "KRNCCAP1"
inline constexpr std::uint32_t k_version = 4;
inline constexpr std::size_t k_max_message_bytes = 48 * 1024;    // the parameters of a kernel of CUDA's: up to 32,764
inline constexpr std::uint32_t k_no_device = 0xFFFFFFFFu;
inline constexpr std::uint64_t k_no_capture = ~std::uint64_t{0};
inline constexpr std::size_t k_max_rules = 64;

enum class Up : std::uint32_t {
  hello = 1, facts, module, kernels, variables, module_end, module_gone, capture, regions, open, data, zero,
  same, close, done, failed, note, ready,
};

enum class Down : std::uint32_t { welcome = 101, selected, free_slot, stop, refused };

enum class Mode : std::uint32_t { profile = 1, capture = 2 };

// In SELECTED.flags.
inline constexpr std::uint32_t k_flag_want_code = 1u << 0;    // send the module's code object
inline constexpr std::uint32_t k_flag_more = 1u << 1;         // another message with more of the answer follows

// In WELCOME.flags.
inline constexpr std::uint32_t k_flag_no_post = 1u << 0;      // leave the post-state out
inline constexpr std::uint32_t k_flag_reachable = 1u << 1;    // only regions that the kernel can reach
inline constexpr std::uint32_t k_flag_hold = 1u << 2;         // the program goes on when the collector has all of it

// image: PTX or a fatbin that the kernel's driver compiled, after CAPTURE; the index counts them
enum class StreamKind : std::uint32_t { code = 1, pre, post, image };

enum class NoteLevel : std::uint32_t { info = 1, warning };

// The order is that of kerncap_stages/manifests/memory.py's MemoryKind.
enum class MemoryKind : std::uint32_t {
  device_coarse = 1, device_fine, device_extended_fine, vmem, async_pool, ipc, host_coarse, host_pinned,
  host_registered, managed, kernarg, code_object,
};

// In a region's flags.
inline constexpr std::uint32_t k_region_read_only = 1u << 0;
inline constexpr std::uint32_t k_region_executable = 1u << 2;
inline constexpr std::uint32_t k_region_uncached = 1u << 3;
// Of managed memory: kernels reach it over the bus; it is copied to whoever reads it.
inline constexpr std::uint32_t k_region_stays_on_host = 1u << 4;
inline constexpr std::uint32_t k_region_read_mostly = 1u << 5;

enum class FailureCode : std::uint32_t {
  timeout = 1, device, unsupported_memory, unsupported_queue, too_large_a_batch, cancelled,
  refused,                       // no process like this one, whatever is wanted of it
};

// In CAPTURE.flags.
inline constexpr std::uint32_t k_capture_from_batch = 1u << 0;  // several packets in one submission (a graph)
inline constexpr std::uint32_t k_capture_cooperative = 1u << 1;

// One finished dispatch. Written in order of completion.
struct Record {
  std::uint32_t kernel;
  std::uint32_t device;
  std::uint32_t queue;
  std::uint32_t group_bytes;
  std::uint64_t grid_work_items[3];
  std::uint16_t block[4];        // x, y, z, zero
  std::uint32_t private_bytes;
  std::uint32_t reserved;
  std::uint64_t index_in_process;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
};
static_assert(sizeof(Record) == 80);

inline constexpr std::uint64_t k_record_capacity = 1 << 16;
inline constexpr std::size_t k_page_bytes = 4096;

// First page of the memfd. Counters survive the program, whatever kills it.
struct Control {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slot_count;
  std::uint64_t slot_bytes;
  std::uint64_t records_offset;
  std::uint64_t slots_offset;
  std::uint64_t total_bytes;
  std::uint64_t reserved[2];
  alignas(64) std::atomic<std::uint64_t> record_head;     // library: records written so far
  alignas(64) std::atomic<std::uint64_t> record_tail;     // collector: records read so far
  alignas(64) std::atomic<std::uint64_t> dispatches;      // all that went through a queue of ours
  std::atomic<std::uint64_t> untimed;                     // of these, those without a time (no free signal)
  std::atomic<std::uint64_t> queues;
  std::atomic<std::uint64_t> uninterceptable_queues;
  std::atomic<std::uint64_t> unlisted;                    // dispatches of kernels that no loaded code object lists
  std::atomic<std::uint64_t> lost;                        // 1: the program closed our socket, or put another file there
  alignas(64) std::atomic<std::uint64_t> matched[k_max_rules];  // dispatches that each rule saw
  // The latest shape for which each rule left a dispatch out, x in the lowest bits: the grid in work-groups, of 32, 16 and
  // 16 bits; the block in work-items, of 16 bits each. Two words: in a program of many threads they may be of two dispatches.
  std::atomic<std::uint64_t> other_grid[k_max_rules];
  std::atomic<std::uint64_t> other_block[k_max_rules];
};
static_assert(offsetof(Control, record_head) == 64 && offsetof(Control, record_tail) == 128);
static_assert(offsetof(Control, dispatches) == 192 && offsetof(Control, matched) == 256);
static_assert(offsetof(Control, other_grid) == 256 + 8 * k_max_rules);
static_assert(offsetof(Control, other_block) == 256 + 16 * k_max_rules);
static_assert(sizeof(Control) <= k_page_bytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace kerncap::capture

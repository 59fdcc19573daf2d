// Scheduling, faults and refusals of the engine, with kernels of a few instructions.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernel_harness.hpp"

namespace {

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::testing;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "engine_test: %s\n", what);
  std::exit(1);
}

constexpr std::uint32_t k_count_down[] = {
    0xBE8400FF, 0x00100000,  // s_mov_b32 s4, 0x100000
    0x80848104,              // s_sub_u32 s4, s4, 1
    0xBF078004,              // s_cmp_lg_u32 s4, 0
    0xBF85FFFD,              // s_cbranch_scc1 -3
    0xBF810000,              // s_endpgm
};

// Each work-group adds one to a counter, then waits until it has the value of s2.
template <bool k_sleeps>
constexpr std::uint32_t k_meet[] = {
    0x7E020280,                            // v_mov_b32 v1, 0
    0x7E040281,                            // v_mov_b32 v2, 1
    0xBEFE0181,                            // s_mov_b64 exec, 1
    0xDD088000, 0x00000201,                // global_atomic_add v1, v2, s[0:1]
    k_sleeps ? 0xBF8E0001U : 0xBF800000U,  // s_sleep 1, or s_nop 0
    0xDC508000, 0x03000001,                // global_load_dword v3, v1, s[0:1]
    0x7E0A0503,                            // v_readfirstlane_b32 s5, v3
    0xBF070205,                            // s_cmp_lg_u32 s5, s2
    0xBF85FFFA,                            // s_cbranch_scc1 -6
    0xBF810000,                            // s_endpgm
};

// A semaphore that lets three waves in: words[0] counts those that came, the first of which sets it up; words[1] those
// that are inside, words[2] the most that ever were.
constexpr std::uint32_t k_three_at_a_time[] = {
    0x7E020280,              // v_mov_b32 v1, 0
    0x7E040281,              // v_mov_b32 v2, 1
    0x7E080283,              // v_mov_b32 v4, 3
    0xBEFE0181,              // s_mov_b64 exec, 1
    0xDD098000, 0x03000201,  // global_atomic_add v3, v1, v2, s[0:1] glc
    0x7E0A0503,              // v_readfirstlane_b32 s5, v3
    0xBF078005,              // s_cmp_lg_u32 s5, 0
    0xBF850002,              // s_cbranch_scc1 2
    0xD9370000, 0x00000004,  // ds_gws_sema_br v4 gds
    0xD9390000, 0x00000000,  // ds_gws_sema_p gds
    0xDD098004, 0x03000201,  // global_atomic_add v3, v1, v2, s[0:1] offset:4 glc
    0x68060681,              // v_add_u32 v3, 1, v3
    0xDD1C8008, 0x00000301,  // global_atomic_umax v1, v3, s[0:1] offset:8
    0xBF8E0001,              // s_sleep 1
    0xDD0C8004, 0x00000201,  // global_atomic_sub v1, v2, s[0:1] offset:4
    0xD9350000, 0x00000000,  // ds_gws_sema_v gds
    0xBF810000,              // s_endpgm
};

// All of eight waves wait; the ninth to come, which never waits, lets them go.
constexpr std::uint32_t k_release_all[] = {
    0x7E020280,              // v_mov_b32 v1, 0
    0x7E040281,              // v_mov_b32 v2, 1
    0xBEFE0181,              // s_mov_b64 exec, 1
    0xDD098000, 0x03000201,  // global_atomic_add v3, v1, v2, s[0:1] glc
    0x7E0A0503,              // v_readfirstlane_b32 s5, v3
    0xBF078805,              // s_cmp_lg_u32 s5, 8
    0xBF850005,              // s_cbranch_scc1 5, to the wait
    0xBF8E007F,              // s_sleep 127
    0xBF8E007F,              // s_sleep 127
    0xD9310000, 0x00000000,  // ds_gws_sema_release_all gds
    0xBF810000,              // s_endpgm
    0xD9390000, 0x00000000,  // ds_gws_sema_p gds
    0xDD088004, 0x00000201,  // global_atomic_add v1, v2, s[0:1] offset:4
    0xBF810000,              // s_endpgm
};

constexpr std::uint32_t k_reverse_in_lds[] = {
    0x7E020280,              // v_mov_b32 v1, 0
    0x24040082,              // v_lshlrev_b32 v2, 2, v0
    0xD81A0000, 0x00000002,  // ds_write_b32 v2, v0
    0xBF8A0000,              // s_barrier
    0x6A0600FF, 0x000000FF,  // v_sub_u32 v3, 0xff, v0
    0x24060682,              // v_lshlrev_b32 v3, 2, v3
    0xD86C0000, 0x04000003,  // ds_read_b32 v4, v3
    0xBF8CC07F,              // s_waitcnt lgkmcnt(0)
    0xDC708000, 0x00000402,  // global_store_dword v2, v4, s[0:1]
    0xBF810000,              // s_endpgm
};

// words[1] counts the work-groups that are inside, words[2] the most that ever were.
constexpr std::uint32_t k_stay_a_while[] = {
    0x7E020280,              // v_mov_b32 v1, 0
    0x7E040281,              // v_mov_b32 v2, 1
    0xBEFE0181,              // s_mov_b64 exec, 1
    0xDD098004, 0x03000201,  // global_atomic_add v3, v1, v2, s[0:1] offset:4 glc
    0x68060681,              // v_add_u32 v3, 1, v3
    0xDD1C8008, 0x00000301,  // global_atomic_umax v1, v3, s[0:1] offset:8
    0xBF8E007F,              // s_sleep 127
    0xBF8E007F,              // s_sleep 127
    0xBF8E007F,              // s_sleep 127
    0xDD0C8004, 0x00000201,  // global_atomic_sub v1, v2, s[0:1] offset:4
    0xBF810000,              // s_endpgm
};

constexpr std::uint32_t k_forever[] = {0xBF82FFFF};                      // s_branch -1
constexpr std::uint32_t k_barriers_forever[] = {0xBF8A0000, 0xBF82FFFE};  // s_barrier; s_branch -2

void test_waves_outlive_their_time_slices(Engine& engine) {
  const Kernel kernel(k_count_down);
  for (const std::uint16_t size : {std::uint16_t{64}, std::uint16_t{256}}) {
    const DispatchOutcome outcome = start(engine, kernel.dispatch(3, size)).get();
    require(!outcome.fault && outcome.counts.total == 3ULL * (size / 64) * (2 + 3 * 0x100000), "each wave runs to its end, once");
  }
}

template <bool k_sleeps>
void test_work_groups_wait_for_each_other(Engine& engine) {
  const Kernel kernel(k_meet<k_sleeps>);
  constexpr std::uint32_t k_groups = 200;
  kernel.words()[4] = k_groups;
  require(!start(engine, kernel.dispatch(k_groups)).get().fault, "work-groups that wait for each other all end");
  require(kernel.words()[0] == k_groups, "each work-group ran once");
}

void test_dispatches_wait_for_each_other_and_the_host(Engine& engine) {
  const Kernel kernel(k_meet<false>);
  kernel.words()[4] = 9;  // four each, and one from the host
  auto first = start(engine, kernel.dispatch(4));
  auto second = start(engine, kernel.dispatch(4));
  __atomic_fetch_add(kernel.words(), 1U, __ATOMIC_RELAXED);
  require(!first.get().fault && !second.get().fault, "dispatches of two queues wait for each other and the host");
}

void test_semaphore_lets_so_many_in(Engine& engine) {
  const Kernel kernel(k_three_at_a_time);
  constexpr std::uint32_t k_groups = 40;
  require(!start(engine, kernel.dispatch(k_groups)).get().fault, "all waves pass the semaphore");
  require(kernel.words()[0] == k_groups && kernel.words()[1] == 0, "each wave came once and left");
  require(kernel.words()[2] >= 2 && kernel.words()[2] <= 3, "no more than three were inside at once, and not one by one");
}

void test_semaphore_releases_all() {
  Engine one(1);  // so that the ninth wave's sleep lets the eight others come to their wait
  const Kernel kernel(k_release_all);
  require(!start(one, kernel.dispatch(9)).get().fault, "the waiting waves are let go");
  require(kernel.words()[1] == 8, "each of them went on");
}

// How many of 400 work-groups of `kernel` were resident at once.
[[nodiscard]] std::uint32_t most_resident(Engine& engine, Resources resources, std::uint16_t group_size, std::uint32_t lds_bytes) {
  const Kernel kernel(k_stay_a_while, resources);
  Dispatch dispatch = kernel.dispatch(400, group_size);
  dispatch.group_segment_size_bytes = lds_bytes;
  dispatch.units = {.count = 2, .simds = 2, .waves_per_simd = 4, .registers_per_simd = 512, .lds_bytes = 4096};
  require(!start(engine, dispatch).get().fault, "work-groups that find room later end, too");
  return kernel.words()[2];
}

void test_as_many_work_groups_are_resident_as_hardware_has_room_for(Engine& engine) {
  require(most_resident(engine, {.vgprs = 64}, 64, 0) == 16, "wave slots bound what is resident");
  require(most_resident(engine, {.vgprs = 256}, 64, 0) == 8, "registers bound what is resident");
  require(most_resident(engine, {.vgprs = 64}, 64, 1024) == 8, "LDS bounds what is resident");
}

void test_barrier_orders_the_waves_of_a_work_group(Engine& engine) {
  const Kernel kernel(k_reverse_in_lds);
  Dispatch dispatch = kernel.dispatch(1, 256);
  dispatch.group_segment_size_bytes = 1024;
  require(!start(engine, dispatch).get().fault, "the barrier kernel ends");
  for (std::uint32_t i = 0; i < 256; ++i) require(kernel.words()[i] == 255 - i, "LDS written before the barrier is read after it");
}

void test_adversarial_order_runs_each_work_group_once() {
  for (const std::uint64_t count : {1ULL, 2ULL, 6ULL, 97ULL, 1000ULL}) {
    const Schedule schedule{.is_adversarial = true, .seed = count};
    std::vector<bool> ran(count);
    for (std::uint64_t i = 0; i < count; ++i) ran[schedule.group_at(1, i, count)] = true;
    require(std::find(ran.begin(), ran.end(), false) == ran.end(), "another order is still one of all work-groups");
  }
  Engine engine(2, *Schedule::parse("adversarial:5"));
  test_barrier_orders_the_waves_of_a_work_group(engine);
  test_work_groups_wait_for_each_other<false>(engine);
  Engine chosen(2);
  for (const Schedule& schedule : {Schedule{.is_adversarial = true, .seed = 5, .counts_dispatches = false}, Schedule{}}) {
    chosen.choose_schedule(schedule);
    test_barrier_orders_the_waves_of_a_work_group(chosen);
    test_work_groups_wait_for_each_other<false>(chosen);
  }
}

void test_abort_ends_a_kernel_that_never_would(Engine& engine, std::span<const std::uint32_t> code) {
  const Kernel kernel(code);
  auto outcome = start(engine, kernel.dispatch(5, 128));
  engine.abort(&kernel);
  require(outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready, "abort() returns after the callback");
  require(outcome.get().aborted, "an aborted dispatch says so");
}

Fault fault_of(Engine& engine, std::span<const std::uint32_t> code, std::uint64_t* code_va = nullptr) {
  const Kernel kernel(code);
  if (code_va != nullptr) *code_va = kernel.code_va();
  return start(engine, kernel.dispatch(1)).get().fault;
}

void test_faults_name_what_happened(Engine& engine) {
  std::uint64_t code_va = 0;
  constexpr std::uint32_t k_unmapped[] = {0xBE800080, 0xC0020100, 0x00000000, 0xBF810000};  // s_mov_b32 s0, 0; s_load_dword s4, s[0:1], 0
  Fault fault = fault_of(engine, k_unmapped, &code_va);
  require(fault.kind == FaultKind::unmapped_address && fault.access == AccessKind::read && fault.mnemonic == "s_load_dword", "a load from nowhere faults");
  require(fault.pc == code_va + 4, "a fault has the program counter of its instruction");

  constexpr std::uint32_t k_unknown[] = {0xBF8B0000};  // s_setkill 0
  fault = fault_of(engine, k_unknown);
  constexpr std::uint32_t k_image[] = {0xF0205F00, 0x00010004};  // image_store v[0:3], v4, s[4:11]
  const Fault image = fault_of(engine, k_image);
  require(image.kind == FaultKind::unknown_instruction && image.mnemonic == "image_store" &&
              image.detail.find("image") != std::string_view::npos, "an image instruction is refused by name");
  require(fault.kind == FaultKind::unknown_instruction && fault.mnemonic == "s_setkill", "an instruction without a handler faults");
  constexpr std::uint32_t k_no_code[] = {0xFFFFFFFF};
  fault = fault_of(engine, k_no_code);
  require(fault.kind == FaultKind::unknown_instruction && fault.code[0] == 0xFFFFFFFF, "words that are no instruction fault");
  require(describe(fault).find("gfx90a") != std::string::npos, "a fault in words names the target");

  constexpr std::uint32_t k_odd[] = {0x7E020902};  // v_cvt_f64_i32 v[1:2], v2: VOP1 4
  fault = fault_of(engine, k_odd);
  require(fault.kind == FaultKind::unknown_instruction && fault.mnemonic == "v_cvt_f64_i32" &&
              fault.detail.find("odd") != std::string_view::npos, "a tuple that begins at an odd register faults by name");

  constexpr std::uint32_t k_register[] = {0x7E800280};  // v_mov_b32 v64, 0
  require(fault_of(engine, k_register).kind == FaultKind::register_out_of_range, "a register beyond the allocation faults");
  constexpr std::uint32_t k_away[] = {0xBE800080, 0xBE810080, 0xBE801D00};  // s_mov_b32 s0/s1, 0; s_setpc_b64 s[0:1]
  require(fault_of(engine, k_away).kind == FaultKind::bad_code_address, "a jump out of the code faults");
  constexpr std::uint32_t k_trap[] = {0xBF920002};  // s_trap 2
  fault = fault_of(engine, k_trap);
  require(fault.kind == FaultKind::trap && fault.address == 2, "a trap is a fault with its number");
}

void test_impossible_dispatches_are_refused(Engine& engine) {
  const auto refused = [&](auto&& change) {
    Kernel kernel(k_count_down);
    Dispatch dispatch = kernel.dispatch(1);
    change(kernel, dispatch);
    const DispatchOutcome outcome = start(engine, dispatch).get();
    return outcome.fault.kind == FaultKind::bad_descriptor && !outcome.refusal.empty();
  };
  require(refused([](Kernel& k, Dispatch&) { k.put<std::uint32_t>(44, 63); }), "AGPRs beyond the registers");
  require(refused([](Kernel& k, Dispatch&) { k.put<std::uint32_t>(48, 15U << 6); }), "too many SGPRs");
  require(refused([](Kernel& k, Dispatch&) { k.put<std::uint32_t>(52, 1U << 1); }), "arguments beyond the user SGPRs");
  require(refused([](Kernel& k, Dispatch&) { k.put<std::uint16_t>(56, 1 << 10 | 1 << 3); }), "32 lanes");
  require(refused([](Kernel& k, Dispatch&) { k.put<std::int64_t>(16, 260); }), "a misaligned entry");
  require(refused([](Kernel&, Dispatch& d) { d.group[0] = 1025; }), "a work-group of 1025");
  require(refused([](Kernel&, Dispatch& d) { d.group_segment_size_bytes = 65537; }), "too much LDS");
  require(refused([](Kernel& k, Dispatch&) { k.put<std::uint32_t>(0, 64); }), "less LDS than the kernel uses");
  require(refused([](Kernel& k, Dispatch& d) { k.put<std::uint32_t>(44, 15 | 1U << 16), d.group_segment_size_bytes = 64; }), "LDS with tgsplit");
  require(refused([](Kernel&, Dispatch& d) { d.kernarg_va = 64; }), "arguments preloaded from nowhere");
  require(refused([](Kernel&, Dispatch& d) { d.private_segment_size_bytes = 16; }), "no scratch memory");
  require(refused([](Kernel&, Dispatch& d) { d.descriptor_va = 64; }), "a descriptor that is not there");
}

// Hardware does not look at kernarg_size: it reads so many dwords from the kernarg pointer on.
void test_arguments_are_preloaded_whatever_size_the_descriptor_says(Engine& engine) {
  Kernel kernel(k_meet<false>);
  kernel.put<std::uint32_t>(8, 0);
  kernel.words()[4] = 1;
  const DispatchOutcome outcome = start(engine, kernel.dispatch(1)).get();
  require(!outcome.fault && kernel.words()[0] == 1, outcome.refusal.c_str());
}

void test_code_replaced_between_dispatches_is_seen(Engine& engine) {
  Kernel kernel(k_count_down);
  require(start(engine, kernel.dispatch(1)).get().counts.total > 1, "the first code runs");
  kernel.put<std::uint32_t>(Kernel::k_code, 0xBF810000);  // s_endpgm
  require(start(engine, kernel.dispatch(1)).get().counts.total == 1, "the second code runs at the same address");
}

}  // namespace

int main() {
  Engine engine(2);
  test_waves_outlive_their_time_slices(engine);
  test_work_groups_wait_for_each_other<true>(engine);
  test_work_groups_wait_for_each_other<false>(engine);
  test_dispatches_wait_for_each_other_and_the_host(engine);
  test_semaphore_lets_so_many_in(engine);
  test_semaphore_releases_all();
  test_as_many_work_groups_are_resident_as_hardware_has_room_for(engine);
  test_barrier_orders_the_waves_of_a_work_group(engine);
  test_abort_ends_a_kernel_that_never_would(engine, k_forever);
  test_abort_ends_a_kernel_that_never_would(engine, k_barriers_forever);
  test_adversarial_order_runs_each_work_group_once();
  test_faults_name_what_happened(engine);
  test_impossible_dispatches_are_refused(engine);
  test_arguments_are_preloaded_whatever_size_the_descriptor_says(engine);
  test_code_replaced_between_dispatches_is_seen(engine);
}

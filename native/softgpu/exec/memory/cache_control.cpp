// Cache write-backs and invalidations. Memory here is coherent, so what is left of them is the ordering: a full fence.
#include <atomic>

#include "softgpu/exec/memory/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

Flow fence(WaveContext&, const Instruction&) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"buffer_wbl2", always<fence>},     {"buffer_inv", always<fence>},          {"buffer_invl2", always<fence>},
    {"buffer_wbinvl1", always<fence>},  {"buffer_wbinvl1_vol", always<fence>},
};

}  // namespace

void register_cache_control(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu

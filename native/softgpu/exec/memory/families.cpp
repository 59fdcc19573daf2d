// The families of this folder. Each is a table of mnemonics in a file of its own.
#include "softgpu/exec/memory/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

void register_memory_families(HandlerTable& table) {
  register_global(table);
  register_buffer(table);
  register_typed_buffer(table);
  register_integer_atomics(table);
  register_float_atomics(table);
  register_cache_control(table);
  register_lds(table);
  register_lds_integer_atomics(table);
  register_lds_float_atomics(table);
  register_lds_cross_lane(table);
}

}  // namespace kerncap::softgpu

// The scalar families. Each is a table of mnemonics in a file of its own.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu {

void register_scalar_families(HandlerTable& table) {
  scalar::register_arithmetic(table);
  scalar::register_logic(table);
  scalar::register_bits(table);
  scalar::register_compare(table);
  scalar::register_immediate(table);
  scalar::register_exec_mask(table);
  scalar::register_register_index(table);
  scalar::register_branch(table);
  scalar::register_control(table);
  scalar::register_hardware_registers(table);
  scalar::register_memory(table);
  scalar::register_global_sync(table);
}

}  // namespace kerncap::softgpu

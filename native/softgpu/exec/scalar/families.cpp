// The families of this folder. Each is a table of mnemonics in a file of its own.
#include "softgpu/exec/handler_table.hpp"

namespace kerncap::softgpu {

void register_scalar_families(HandlerTable&) {}

}  // namespace kerncap::softgpu

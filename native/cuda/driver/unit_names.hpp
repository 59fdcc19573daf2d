// Symbols that nvcc makes of what only one translation unit knows.
#pragma once

#include <string_view>

namespace kerncap::cuda {

// Whether two symbols differ only in what nvcc calls the unit. Kernels of anonymous namespaces carry a hash of the folder
// that they were compiled in (_ZN36_GLOBAL__N__ad82676b_4_a_cu_acc5a52f4anonEPf): elsewhere, the same kernel has another
// symbol.
[[nodiscard]] bool same_but_for_unit(std::string_view name, std::string_view other);

}  // namespace kerncap::cuda

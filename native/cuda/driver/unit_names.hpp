// Symbols that nvcc makes of what only one translation unit knows.
#pragma once

#include <string_view>

namespace kerncap::cuda {

// Whether two symbols differ only in what nvcc calls the unit. Kernels of anonymous namespaces carry hashes of the folder
// and the file that they were compiled from (_ZN36_GLOBAL__N__ad82676b_4_a_cu_acc5a52f4anonEPf): compiled elsewhere, the
// same kernel has another symbol.
[[nodiscard]] bool same_but_for_unit(std::string_view name, std::string_view other);

}  // namespace kerncap::cuda

// What this GPU did not run, so told that nobody misses it: programs lose errors that HIP and ROCr give them.
#pragma once

#include <string>

namespace kerncap::softgpu {

// A line on standard error and in the file that KERNCAP_SOFTGPU_REFUSALS names, where whoever started the program reads it at the
// end. What was told already is not told again.
void tell_refusal(const std::string& text) noexcept;

}  // namespace kerncap::softgpu

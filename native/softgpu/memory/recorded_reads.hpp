// Whether dispatches that are recorded are recorded with their reads: KERNCAP_SOFTGPU_ACCESSES says it once, for a process.
// A header of its own: all of the interpreter includes access_record.hpp, and only what handles accesses includes this.
#pragma once

#include <atomic>

namespace kerncap::softgpu {

inline std::atomic<bool> g_records_reads{true};

}  // namespace kerncap::softgpu

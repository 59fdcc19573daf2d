// AMD's code object manager (libamd_comgr). hipRTC compiles and links all programs by amd_comgr_do_action. What the library hands
// out about an action is all that there is to record: texts, headers and options as the compiler gets them, those that hipRTC adds
// among them.
#pragma once

#include <cstdint>

namespace kerncap::rtc {

// The library's types are structs of one 64-bit handle, which are passed as the handle is.
using ComgrHandle = std::uint64_t;
using ComgrStatus = std::uint32_t;
inline constexpr ComgrStatus k_comgr_success = 0;
inline constexpr ComgrStatus k_comgr_error = 1;

using DoAction = ComgrStatus(std::uint32_t kind, ComgrHandle action, ComgrHandle input, ComgrHandle result);

// In front of amd_comgr_do_action: calls it, and records what it compiled or linked.
ComgrStatus do_action(DoAction* real, std::uint32_t kind, ComgrHandle action, ComgrHandle input, ComgrHandle result) noexcept;

}  // namespace kerncap::rtc

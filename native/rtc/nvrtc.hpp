// NVIDIA's NVRTC. A program is made with its source and headers, is told which templates to instantiate, and is then compiled; all
// of this is the caller's, so that each of these functions has one of ours in front.
#pragma once

namespace kerncap::rtc {

using NvrtcResult = int;
using NvrtcProgram = void*;
inline constexpr NvrtcResult k_nvrtc_success = 0;
inline constexpr NvrtcResult k_nvrtc_internal_error = 11;

using CreateProgram = NvrtcResult(NvrtcProgram* program, const char* source, const char* name, int header_count,
                                  const char* const* headers, const char* const* header_names);
using AddNameExpression = NvrtcResult(NvrtcProgram program, const char* expression);
using CompileProgram = NvrtcResult(NvrtcProgram program, int option_count, const char* const* options);
using DestroyProgram = NvrtcResult(NvrtcProgram* program);

NvrtcResult create_program(CreateProgram* real, NvrtcProgram* program, const char* source, const char* name, int header_count,
                           const char* const* headers, const char* const* header_names) noexcept;
NvrtcResult add_name_expression(AddNameExpression* real, NvrtcProgram program, const char* expression) noexcept;
NvrtcResult compile_program(CompileProgram* real, NvrtcProgram program, int option_count, const char* const* options) noexcept;
NvrtcResult destroy_program(DestroyProgram* real, NvrtcProgram* program) noexcept;

}  // namespace kerncap::rtc

// Messages to people: one line each, on standard error, with one system call. Never standard output.
#pragma once

namespace kerncap::softgpu {

[[gnu::format(printf, 1, 2)]] void report(const char* format, ...) noexcept;

// The same, while tracing is on (KERNCAP_SOFTGPU_TRACE): driver calls and packets, for finding out what a program does.
[[gnu::format(printf, 1, 2)]] void trace(const char* format, ...) noexcept;
[[nodiscard]] bool is_tracing() noexcept;  // for what costs more than a call to find out
void set_tracing(bool on) noexcept;

}  // namespace kerncap::softgpu

// What the CUDA driver calls when it starts, because CUDA_INJECTION64_PATH names this library. Nothing here may
// write to standard output, throw, or end the program: on any error the program goes on as if we were not there.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "cuda/api.hpp"
#include "cuda/callbacks.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

Tool* g_tool = nullptr;

void complain(const core::Error& error) noexcept {
  std::fprintf(stderr, "kerncap: %s; the program runs on without being recorded\n", error.message.c_str());
  if (g_tool != nullptr) {
    const bool is_refused = error.code == core::ErrorCode::unsupported;
    const auto code = is_refused ? capture::FailureCode::refused : capture::FailureCode::device;
    g_tool->channel->send(
        capture::messages::Failed{.capture = capture::k_no_capture, .code = code, .reason = error.message});
  }
}

void finish() noexcept {
  if (g_tool != nullptr && g_tool->own.enabled.load()) g_tool->profiler.finish();
}

void start(const char* socket) noexcept {
  if (core::Result<void> loaded = load_driver(); !loaded) return complain(loaded.error());
  core::Result<capture::Channel*> channel = capture::Channel::connect(socket, "cuda");
  if (!channel) return complain(channel.error());
  OwnProcess* own = make_own_process();
  auto* made = own == nullptr ? nullptr : new (std::nothrow) Tool(*own, *channel.value());
  if (made == nullptr) return;
  g_tool = made;
  if (core::Result<void> loaded = load_cupti(); !loaded) return complain(loaded.error());
  const Inside inside;
  const bool profiling = made->channel->mode() == capture::Mode::profile;
  if (core::Result<void> subscribed = subscribe(made->channel->mode()); !subscribed) return complain(subscribed.error());
  if (profiling) {
    if (core::Result<void> started = made->profiler.start(); !started) return complain(started.error());
  }
  // A forked child cannot use the parent's driver; it must not use the parent's conversation either.
  ::pthread_atfork(nullptr, nullptr, [] {
    if (g_tool == nullptr) return;
    g_tool->own.is_ours.store(false);
    g_tool->own.enabled.store(false);
    g_tool->channel->abandon_in_child();
  });
  if (profiling) {
    std::atexit(finish);
    std::at_quick_exit(finish);
  }
  made->own.enabled.store(true);
}

}  // namespace

Tool* tool() noexcept { return g_tool; }

void warn(std::string_view text) noexcept {
  g_tool->channel->send(capture::messages::Note{.text = text});
}

}  // namespace kerncap::cuda

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) noexcept {
  static bool s_once = false;
  const char* socket = std::getenv("KERNCAP_SOCKET");
  if (s_once || socket == nullptr) return 1;
  s_once = true;
  kerncap::cuda::start(socket);
  return 1;
}

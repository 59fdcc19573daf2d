// What calls us: ROCr, which loads this library because HSA_TOOLS_LIB names it, or librocprofiler-register, which
// loads it because ROCPROFILER_REGISTER_LIBRARY does and hands on the tables of the libraries that register with
// it. Both go on whatever we answer.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "hsa/api.hpp"
#include "hsa/device_errors.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

std::atomic<Tool*> g_tool{nullptr};

// The only words that we ever say in the program's name, on its standard error.
void complain(const core::Error& error) noexcept {
  const std::string line = "kerncap: not active in process " + std::to_string(::getpid()) + ": " + error.message + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

// One conversation for each process: a program that starts the runtime again goes on in the first one.
core::Result<capture::Channel*> conversation(const Tool* earlier, const char* socket_path) noexcept {
  if (earlier != nullptr && earlier->channel->connected()) {
    earlier->channel->hurry(false);
    return earlier->channel;
  }
  return capture::Channel::connect(socket_path, "hsa");
}

void when_forked_or_ending() noexcept {
  pthread_atfork(nullptr, nullptr, [] {
    // The runtime does not survive a fork, and neither does our conversation. The parent goes on as before.
    tool()->enabled.store(false, std::memory_order_relaxed);
    tool()->snapshots.session().abandon_in_child();
    tool()->channel->abandon_in_child();
  });
  constexpr auto k_finish = [] {
    if (!enabled()) return;
    if (tool()->profiling()) tool()->profiler.harvest();
    tool()->snapshots.session().settle(capture::k_settle_limit);
  };
  (void)::atexit(k_finish);
  (void)::at_quick_exit(k_finish);
}

core::Result<void> start(HsaApiTable& table, const char* socket_path) noexcept {
  Tool* const earlier = tool();
  if (core::Result<void> saved = save_api(table); !saved) return saved;
  Agents agents;
  if (!agents.discover()) return {};  // a machine without a GPU: nothing to see, nothing to say
  core::Result<capture::Channel*> channel = conversation(earlier, socket_path);
  if (!channel) return channel.error();
  const std::uint64_t first_capture = earlier == nullptr ? 0 : earlier->snapshots.session().next_number();
  auto* made = new Tool(*channel.value(), std::move(agents), first_capture);
  made->channel->send(made->agents.facts(capture::k_no_device));
  for (std::uint32_t i = 0; i < made->agents.devices().size(); ++i) made->channel->send(made->agents.facts(i));
  g_tool.store(made, std::memory_order_release);
  made->enabled.store(true, std::memory_order_release);
  if (earlier == nullptr) when_forked_or_ending();
  install_hooks(table);
  expect_memory_faults();
  return {};
}

}  // namespace

Tool* tool() noexcept { return g_tool.load(std::memory_order_acquire); }

}  // namespace kerncap::hsa

extern "C" {

__attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, std::uint64_t, std::uint64_t,
                                                   const char* const*) noexcept {
  using namespace kerncap::hsa;
  const char* socket_path = ::getenv("KERNCAP_SOCKET");
  // Not started by us, or loaded a second time.
  if (socket_path == nullptr || table == nullptr || enabled()) return true;
  if (const auto started = start(*table, socket_path); !started) complain(started.error());
  return true;
}

// Returns 0, which is all that it may.
__attribute__((visibility("default"))) int rocprofiler_set_api_table(const char* name, std::uint64_t, std::uint64_t,
                                                                     void** tables, std::uint64_t count) noexcept {
  if (name != nullptr && ::strcmp(name, "hsa") == 0 && tables != nullptr && count > 0) {
    (void)OnLoad(static_cast<HsaApiTable*>(tables[0]), 0, 0, nullptr);
  }
  return 0;
}

// The runtime shuts down. It closes this library afterwards, which is linked to stay (-z nodelete): the queues of the
// program may still lead here, and the thread that hears the collector goes on.
__attribute__((visibility("default"))) void OnUnload() noexcept { kerncap::hsa::end(); }
}

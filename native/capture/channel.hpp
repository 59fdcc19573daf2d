// The capture library's end of the protocol: one socket, one shared memory, one thread that listens.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/cases.hpp"
#include "capture/messages.hpp"
#include "capture/threads.hpp"
#include "core/result.hpp"
#include "core/unique_fd.hpp"

namespace kerncap::capture {

using messages::Match;

struct Replacement;

struct Selection {
  bool want_code = false;
  std::vector<Match> matches;
};

// Lives until the process ends: runtimes submit work after static destructors, so nothing is ever torn down.
class Channel {
 public:
  // Connects, says hello and waits for the answer. The caller goes on without us on any error.
  [[nodiscard]] static core::Result<Channel*> connect(const std::string& socket_path, std::string_view backend);

  // The collector is there and wants more captures.
  [[nodiscard]] bool active() const noexcept { return m_active.load(std::memory_order_relaxed); }
  [[nodiscard]] bool connected() const noexcept { return m_connected.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_silent() const noexcept { return m_silent.load(std::memory_order_relaxed); }

  // Programs may close descriptors that they did not open, all of them mostly: what is there now may be a file of theirs.
  // Then the runtime's own are gone, too.
  [[nodiscard]] bool owns_socket() const noexcept;

  // Any thread. Waits for room, no longer than any capture may take; what cannot be said then ends the conversation.
  // False once the collector is gone.
  bool send(const Message& message) noexcept;
  template <typename T>
  bool send(const T& what) noexcept {
    Message message(T::k_type);
    what.write(message);
    return send(message);
  }

  // Blocks until the collector said which kernels of a module it wants; none of them after a time-out. A collector that
  // has let one pass is not waited for again before it says something.
  [[nodiscard]] Selection select(std::uint64_t module) noexcept;

  // In replace mode, what a rule puts in the place of a kernel; known before anything is selected. Null: nothing.
  [[nodiscard]] const Replacement* replacement(std::uint32_t rule) noexcept;

  // A staging slot of ours, or none when the collector is gone, `deadline` passes, or an earlier wait was in vain.
  [[nodiscard]] std::optional<std::uint32_t> acquire_slot(std::chrono::steady_clock::time_point deadline) noexcept;
  void release_unsent_slot(std::uint32_t slot) noexcept;
  [[nodiscard]] std::span<std::byte> slot(std::uint32_t index) const noexcept {
    return slots().subspan(index * m_slot_bytes, m_slot_bytes);
  }
  [[nodiscard]] std::span<std::byte> slots() const noexcept {
    return {m_slots, m_slot_count * m_slot_bytes};
  }

  // One writer thread. Waits for room, and counts the dispatch as one without a time if there is none: at once, where
  // the collector has let an earlier wait pass.
  bool push_record(const Record& record) noexcept;

  // From now on nobody waits for the collector for longer than a second: the program gives up what our threads use.
  // False: that is over, and the program has begun anew.
  void hurry(bool on) noexcept;

  [[nodiscard]] Control& control() const noexcept { return *m_control; }
  [[nodiscard]] Mode mode() const noexcept { return m_mode; }
  [[nodiscard]] std::uint32_t flags() const noexcept { return m_flags; }
  [[nodiscard]] bool with_post() const noexcept { return (m_flags & k_welcome_no_post) == 0; }
  [[nodiscard]] std::span<const Rule> rules() const noexcept { return m_rules; }
  [[nodiscard]] Cases& cases() noexcept { return m_cases; }
  [[nodiscard]] std::chrono::milliseconds wait_limit() const noexcept { return m_wait_limit; }
  [[nodiscard]] std::uint32_t slot_count() const noexcept { return m_slot_count; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return m_slot_bytes; }

  // In a forked child: the parent's conversation is not ours. Async-signal-safe.
  void abandon_in_child() noexcept;

 private:
  Channel() = default;
  ~Channel();
  core::Result<void> shake_hands(std::string_view backend);
  core::Result<void> read_welcome(const messages::Welcome& welcome);
  core::Result<void> map_shared(core::UniqueFd memfd);
  core::Result<void> start_listening();
  void listen() noexcept;
  void hear(Reader& reader) noexcept;
  void hear_selected(Reader& reader) noexcept;
  void hang_up() noexcept;
  // It took nothing in for so long that the program goes on without it.
  void give_up() noexcept;
  // How long anything waits for a collector from which nothing comes, one that was stopped for example.
  [[nodiscard]] std::chrono::milliseconds silence_limit() const noexcept;

  Thread m_thread;
  core::UniqueFd m_socket;
  std::uint64_t m_socket_inode = 0;
  std::byte* m_base = nullptr;
  Control* m_control = nullptr;
  Record* m_records = nullptr;
  Mode m_mode = Mode::capture;
  std::uint32_t m_flags = 0;
  std::uint32_t m_slot_count = 0;
  std::size_t m_slot_bytes = 0;
  std::byte* m_slots = nullptr;  // found once: who shares the memory may write to it at any time
  std::chrono::milliseconds m_wait_limit{0};
  std::vector<Rule> m_rules;
  Cases m_cases;
  std::atomic<bool> m_active{false};
  std::atomic<bool> m_connected{false};
  std::atomic<bool> m_silent{false};   // a wait for the collector was in vain, and nothing has come from it since
  std::atomic<bool> m_hurry{false};

  std::mutex m_send_mutex;
  std::mutex m_mutex;                  // guards everything below
  std::condition_variable m_changed;
  std::vector<std::uint32_t> m_free_slots;
  std::uint64_t m_selected_module = 0;
  std::optional<Selection> m_selected;
  Selection m_selected_so_far;  // the listening thread's
  std::map<std::uint32_t, std::unique_ptr<Replacement>> m_replacements;
  std::mutex m_select_mutex;           // one question at a time
};

}  // namespace kerncap::capture

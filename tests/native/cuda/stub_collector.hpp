// The collector's end of the protocol, as a thread of the test: every kernel of every module is wanted, by the first rule.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "capture/channel.hpp"

namespace kerncap::test {

namespace messages = capture::messages;

// What came of the dispatches that were wanted.
struct Captured {
  std::uint64_t module;
  std::uint64_t index_of_kernel;
  std::uint64_t grid_x;
};
struct Heard {
  std::vector<capture::ReplaceOutcome> outcomes;   // in replace mode
  std::vector<std::string> reasons;                // of those that failed
  std::vector<Captured> captures;        // begun: their failures may follow
  std::vector<std::string> failures;
  std::size_t ready = 0;                 // with all that is wanted, before the kernel is let go
};

class Collector {
 public:
  // Lives until the process ends, as what is connected to it does.
  static Collector& start(const capture::Rule& rule, std::uint32_t wait_ms, std::uint32_t flags,
                          capture::Mode mode = capture::Mode::capture) {
    return *new Collector(rule, wait_ms, flags, mode);
  }
  // In replace mode, before the library connects. What it names outlives us.
  void replace_by(const messages::Replacement& replacement, const std::vector<messages::ProgramVariable>& variables) {
    m_replacement = replacement;
    m_variables = variables;
  }

  [[nodiscard]] capture::Channel* connect() {
    auto connected = capture::Channel::connect(m_name, "cuda");
    return connected ? m_channel = connected.value() : nullptr;
  }

  // All that the library has said until now.
  Heard heard() {
    m_channel->send(messages::Note{});
    std::unique_lock lock(m_mutex);
    const std::uint64_t wanted = ++m_asked;
    m_changed.wait(lock, [&] { return m_answered == wanted; });
    return m_heard;
  }

 private:
  using Up = capture::Up;

  Collector(const capture::Rule& rule, std::uint32_t wait_ms, std::uint32_t flags, capture::Mode mode)
      : m_rule(rule), m_wait_ms(wait_ms), m_flags(flags), m_mode(mode) {
    // A name of its own, and no file: it begins with a zero byte.
    m_name = std::string(1, '\0') + "kerncap-test-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, m_name.data(), m_name.size());
    m_listening = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (::bind(m_listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
    if (::listen(m_listening, 1) != 0) std::abort();
    std::thread([this] { run(); }).detach();
  }

  template <typename T>
  void say(const T& what, int passed = -1) {
    capture::Message text(T::k_type);
    what.write(text);
    iovec part{const_cast<std::byte*>(text.view().data()), text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (passed >= 0) {
      header.msg_control = control;
      header.msg_controllen = sizeof control;
      cmsghdr* item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(sizeof passed);
      std::memcpy(CMSG_DATA(item), &passed, sizeof passed);
    }
    if (::sendmsg(m_socket, &header, MSG_NOSIGNAL) < 0) std::abort();
  }

  void welcome() {
    constexpr std::uint32_t k_slots = 2;
    constexpr std::uint64_t k_slot_bytes = 1 << 16;
    constexpr std::uint64_t k_records_bytes = capture::k_record_capacity * sizeof(capture::Record);
    const std::uint64_t total = capture::k_page_bytes + k_records_bytes + k_slots * k_slot_bytes;
    const int memory = ::memfd_create("kerncap-test", MFD_CLOEXEC);
    if (::ftruncate(memory, static_cast<off_t>(total)) != 0) std::abort();
    void* mapped = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    auto& control = *static_cast<capture::Control*>(mapped);
    control.magic = capture::k_magic;
    control.version = capture::k_version;
    control.slot_count = k_slots;
    control.slot_bytes = k_slot_bytes;
    control.records_offset = capture::k_page_bytes;
    control.slots_offset = capture::k_page_bytes + k_records_bytes;
    control.total_bytes = total;
    const messages::Welcome welcome{.magic = capture::k_magic,
                                    .version = capture::k_version,
                                    .mode = m_mode,
                                    .slot_count = k_slots,
                                    .slot_bytes = k_slot_bytes,
                                    .wait_ms = m_wait_ms,
                                    .flags = m_flags,
                                    .rules = {m_rule}};
    say(welcome, memory);
    if (m_mode != capture::Mode::replace) return;
    say(m_replacement);
    for (const messages::ProgramVariable& variable : m_variables) say(variable);
  }

  void run() {
    m_socket = ::accept(m_listening, nullptr, nullptr);
    std::vector<std::byte> buffer(capture::k_max_message_bytes);
    for (;;) {
      const ssize_t count = ::recv(m_socket, buffer.data(), buffer.size(), 0);
      if (count <= 0) return;
      capture::Reader reader({buffer.data(), static_cast<std::size_t>(count)});
      const std::lock_guard lock(m_mutex);
      hear(static_cast<Up>(reader.u32()), reader);
    }
  }

  void hear(Up type, capture::Reader& reader) {
    switch (type) {
      case Up::hello:
        return welcome();
      case Up::kernels:
        for (const messages::Kernel& kernel : messages::Kernels::read(reader).kernels) m_kernels.push_back(kernel.kernel);
        return;
      case Up::module_end: {
        messages::Selected selected{.module = messages::ModuleEnd::read(reader).module};
        for (const std::uint32_t kernel : m_kernels) selected.matches.push_back({.kernel = kernel, .rule = 0});
        m_kernels.clear();
        return say(selected);
      }
      case Up::capture: {
        const auto begun = messages::Capture::read(reader);
        m_heard.captures.push_back({begun.module, begun.index_of_kernel, begun.grid_work_items[0]});
        return;
      }
      case Up::ready:
        ++m_heard.ready;
        return;
      case Up::data:
        return say(messages::FreeSlot{.slot = messages::Data::read(reader).slot});
      case Up::failed:
        m_heard.failures.emplace_back(messages::Failed::read(reader).reason);
        return;
      case Up::replaced: {
        const auto told = messages::Replaced::read(reader);
        m_heard.outcomes.push_back(told.outcome);
        if (told.outcome == capture::ReplaceOutcome::failed) m_heard.reasons.emplace_back(told.reason);
        return;
      }
      case Up::note:
        if (!messages::Note::read(reader).text.empty()) return;      // a warning of the library's
        ++m_answered;
        return m_changed.notify_all();
      default:
        return;
    }
  }

  capture::Rule m_rule;
  std::uint32_t m_wait_ms;
  std::uint32_t m_flags;
  capture::Mode m_mode;
  messages::Replacement m_replacement;
  std::vector<messages::ProgramVariable> m_variables;
  std::string m_name;
  capture::Channel* m_channel = nullptr;
  int m_listening = -1;
  int m_socket = -1;
  std::vector<std::uint32_t> m_kernels;  // of the module that is being told of
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::uint64_t m_asked = 0;
  std::uint64_t m_answered = 0;
  Heard m_heard;
};

}  // namespace kerncap::test

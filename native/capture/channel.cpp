// The library's end of the capture protocol. Runs inside the user's program: it writes nothing to stdout,
// throws nothing, raises no SIGPIPE, and its thread takes none of the program's signals.
#include "capture/channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "capture/expected.hpp"
#include "capture/replacement.hpp"

namespace kerncap::capture {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;
using core::UniqueFd;

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds k_answer_limit{20};  // a loaded machine; a dead collector is noticed at once
constexpr std::chrono::seconds k_hurry_limit{1};    // the runtime's end waits for our threads, too
constexpr std::chrono::milliseconds k_look_every{50};  // whether we are in a hurry by now

Error failure(const char* what) { return {ErrorCode::io, std::string(what) + ": " + std::strerror(errno)}; }

// Waits until there is something to receive. False: it is late. Signals of the program's make the wait no longer.
bool can_receive(int socket, Clock::time_point until) noexcept {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return false;
    pollfd wanted{socket, POLLIN, 0};
    const int found = ::poll(&wanted, 1, static_cast<int>(left.count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

// Receives one message, and a file descriptor when one comes with it. Empty at the end of the connection.
std::span<std::byte> receive(int socket, std::span<std::byte> buffer, UniqueFd* passed) noexcept {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count;
  do {
    count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return {};
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    int fd;
    std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
    UniqueFd owned(fd);
    if (passed != nullptr) *passed = std::move(owned);
  }
  return buffer.first(static_cast<std::size_t>(count));
}

}  // namespace

Channel::~Channel() = default;

Result<Channel*> Channel::connect(const std::string& socket_path, std::string_view backend) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::invalid_argument, "the collector's socket path is too long"};
  }
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  UniqueFd opened(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!opened.valid()) return failure("socket");
  // Never 0, 1 or 2, to which a program that has closed them may still write.
  UniqueFd socket(::fcntl(opened.get(), F_DUPFD_CLOEXEC, 3));
  if (!socket.valid()) return failure("socket");
  // Where as many processes wait as a listener may have, connect() waits for the collector.
  const timeval limit{k_answer_limit.count(), 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failure("cannot reach the collector");
  }
  auto* channel = new (std::nothrow) Channel();
  if (channel == nullptr) return Error{ErrorCode::no_space, "out of memory"};
  struct stat status{};
  if (::fstat(socket.get(), &status) != 0) return failure("fstat");
  channel->m_socket = std::move(socket);
  channel->m_socket_inode = status.st_ino;
  Result<void> ready = channel->shake_hands(backend);
  if (ready) ready = channel->start_listening();
  if (!ready) {
    delete channel;
    return ready.error();
  }
  answer_for(*channel);
  return channel;
}

Result<void> Channel::shake_hands(std::string_view backend) {
  m_connected.store(true, std::memory_order_relaxed);
  if (!send(messages::Hello{.magic = k_magic, .version = k_version, .backend = backend})) return Error{ErrorCode::io, "the collector hung up"};
  std::vector<std::byte> buffer(k_max_message_bytes);
  UniqueFd memfd;
  std::span<std::byte> answer;
  if (can_receive(m_socket.get(), Clock::now() + k_answer_limit)) answer = receive(m_socket.get(), buffer, &memfd);
  Reader reader(answer);
  const auto type = static_cast<Down>(reader.u32());
  if (type == Down::refused) {
    return Error{ErrorCode::unsupported, "the collector declined: " + std::string(messages::Refused::read(reader).reason)};
  }
  if (type != Down::welcome) return Error{ErrorCode::io, "no answer from the collector"};
  const auto welcome = messages::Welcome::read(reader);
  if (!reader.ok()) return Error{ErrorCode::damaged, "the collector's answer is cut short"};
  if (Result<void> read = read_welcome(welcome); !read) return read;
  return map_shared(std::move(memfd));
}

Result<void> Channel::read_welcome(const messages::Welcome& welcome) {
  if (welcome.magic != k_magic || welcome.version != k_version) {
    return Error{ErrorCode::unsupported, "the collector speaks another version of the protocol"};
  }
  if (welcome.rules.size() > k_max_rules) return Error{ErrorCode::damaged, "too many rules in the collector's answer"};
  m_mode = welcome.mode;
  m_slot_count = welcome.slot_count;
  m_slot_bytes = welcome.slot_bytes;
  m_wait_limit = std::chrono::milliseconds(welcome.wait_ms);
  m_flags = welcome.flags;
  m_rules = welcome.rules;
  for (Rule& rule : m_rules) rule.every = std::max<std::uint64_t>(rule.every, 1);
  return {};
}

Result<void> Channel::map_shared(UniqueFd memfd) {
  struct stat status{};
  if (!memfd.valid() || ::fstat(memfd.get(), &status) != 0) return failure("no shared memory from the collector");
  const auto total = static_cast<std::size_t>(status.st_size);
  const std::size_t least = k_page_bytes + k_record_capacity * sizeof(Record) + m_slot_count * m_slot_bytes;
  if (total < least) return Error{ErrorCode::damaged, "the collector's shared memory is too small"};
  void* base = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (base == MAP_FAILED) return failure("cannot map the collector's shared memory");
  m_base = static_cast<std::byte*>(base);
  m_control = reinterpret_cast<Control*>(base);
  const std::uint64_t slots_offset = m_control->slots_offset, records_offset = m_control->records_offset;
  const auto holds = [total](std::uint64_t offset, std::size_t size_bytes) {
    return offset <= total && size_bytes <= total - offset;
  };
  if (m_control->magic != k_magic || m_control->version != k_version || m_control->total_bytes != total ||
      !holds(slots_offset, m_slot_count * m_slot_bytes) || !holds(records_offset, k_record_capacity * sizeof(Record))) {
    return Error{ErrorCode::damaged, "the collector's shared memory has an unknown layout"};
  }
  m_records = reinterpret_cast<Record*>(m_base + records_offset);
  m_slots = m_base + slots_offset;
  for (std::uint32_t i = m_slot_count; i > 0; --i) m_free_slots.push_back(i - 1);
  return {};
}

Result<void> Channel::start_listening() {
  m_active.store(true, std::memory_order_relaxed);
  if (m_thread.start("kc-listen", [](void* self) { static_cast<Channel*>(self)->listen(); }, this)) return {};
  return Error{ErrorCode::io, "cannot start a thread"};
}

void Channel::listen() noexcept {
  std::vector<std::byte> buffer(k_max_message_bytes);
  while (owns_socket()) {
    const std::span<std::byte> packet = receive(m_socket.get(), buffer, nullptr);
    if (packet.empty()) break;
    m_silent.store(false, std::memory_order_relaxed);
    Reader reader(packet);
    hear(reader);
  }
  hang_up();
}

void Channel::hear(Reader& reader) noexcept {
  switch (static_cast<Down>(reader.u32())) {
    case Down::free_slot: {
      const std::uint32_t slot = messages::FreeSlot::read(reader).slot;
      if (!reader.ok() || slot >= m_slot_count) return;
      release_unsent_slot(slot);
      return;
    }
    case Down::selected:
      return hear_selected(reader);
    case Down::replacement: {
      const auto sent = messages::Replacement::read(reader);
      if (!reader.ok() || sent.rule >= m_rules.size()) return;
      const std::lock_guard lock(m_mutex);
      m_replacements.try_emplace(sent.rule, std::make_unique<Replacement>(sent));
      return;
    }
    case Down::program_variable: {
      const auto sent = messages::ProgramVariable::read(reader);
      const std::lock_guard lock(m_mutex);
      const auto found = m_replacements.find(sent.rule);
      if (reader.ok() && found != m_replacements.end()) found->second->add(sent);
      return;
    }
    default:
      return;
  }
}

void Channel::hear_selected(Reader& reader) noexcept {
  const auto answer = messages::Selected::read(reader);
  Selection& selection = m_selected_so_far;
  selection.want_code = (answer.flags & k_selected_want_code) != 0;
  for (const Match& match : answer.matches) {
    if (match.rule < m_rules.size()) selection.matches.push_back(match);
  }
  if (reader.ok() && (answer.flags & k_selected_more) != 0) return;
  const std::lock_guard lock(m_mutex);
  Selection whole = std::exchange(selection, {});
  if (m_selected_module != answer.module) return;
  m_selected = std::move(whole);
  m_changed.notify_all();
}

const Replacement* Channel::replacement(std::uint32_t rule) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = m_replacements.find(rule);
  return found == m_replacements.end() ? nullptr : found->second.get();
}

void Channel::hang_up() noexcept {
  if (m_control != nullptr && !owns_socket()) m_control->lost.store(1, std::memory_order_relaxed);
  const std::lock_guard lock(m_mutex);
  m_active.store(false, std::memory_order_relaxed);
  m_connected.store(false, std::memory_order_relaxed);
  m_changed.notify_all();
}

bool Channel::owns_socket() const noexcept {
  struct stat status{};
  return ::fstat(m_socket.get(), &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == m_socket_inode;
}

bool Channel::send(const Message& message) noexcept {
  if (!message.ok()) return false;
  const std::lock_guard lock(m_send_mutex);
  for (const auto begun = Clock::now(); connected();) {
    if (!owns_socket()) {
      hang_up();
      return false;
    }
    const ssize_t count = ::send(m_socket.get(), message.view().data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return count == static_cast<ssize_t>(message.size());
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    // A capture is given up by then, too.
    const auto limit = m_wait_limit.count() == 0 ? silence_limit() : std::min(silence_limit(), m_wait_limit);
    if (Clock::now() - begun > limit) {
      give_up();
      return false;
    }
    pollfd room{m_socket.get(), POLLOUT, 0};
    (void)::poll(&room, 1, static_cast<int>(k_look_every.count()));
  }
  return false;
}

std::chrono::milliseconds Channel::silence_limit() const noexcept {
  return m_hurry.load(std::memory_order_relaxed) ? k_hurry_limit : k_answer_limit;
}

void Channel::hurry(bool on) noexcept {
  m_hurry.store(on, std::memory_order_relaxed);
  const std::lock_guard lock(m_mutex);
  m_changed.notify_all();
}

// What was said before is still heard: the collector finds it when it goes on.
void Channel::give_up() noexcept {
  if (m_control != nullptr) m_control->lost.store(1, std::memory_order_relaxed);
  (void)::shutdown(m_socket.get(), SHUT_RDWR);
  hang_up();
}

Selection Channel::select(std::uint64_t module) noexcept {
  const std::lock_guard one_at_a_time(m_select_mutex);
  {
    const std::lock_guard lock(m_mutex);
    m_selected_module = module;
    m_selected.reset();
  }
  if (!send(messages::ModuleEnd{.module = module})) return {};
  std::unique_lock lock(m_mutex);
  const auto begun = Clock::now();
  while (!m_selected && connected() && !m_silent.load(std::memory_order_relaxed)) {
    m_changed.wait_for(lock, k_look_every);
    if (Clock::now() - begun > silence_limit()) m_silent.store(true, std::memory_order_relaxed);
  }
  m_selected_module = 0;
  return m_selected ? std::move(*m_selected) : Selection{};
}

std::optional<std::uint32_t> Channel::acquire_slot(std::chrono::steady_clock::time_point deadline) noexcept {
  std::unique_lock lock(m_mutex);
  const auto begun = Clock::now();
  while (m_free_slots.empty() && connected() && !m_silent.load(std::memory_order_relaxed)) {
    const auto now = Clock::now();
    const bool in_vain = now >= deadline || (m_hurry.load(std::memory_order_relaxed) && now - begun > k_hurry_limit);
    if (in_vain) {
      // Who only asks has not waited.
      if (now - begun > k_hurry_limit) m_silent.store(true, std::memory_order_relaxed);
      return std::nullopt;
    }
    m_changed.wait_until(lock, std::min(deadline, now + k_look_every));
  }
  if (!connected() || m_free_slots.empty()) return std::nullopt;
  const std::uint32_t slot = m_free_slots.back();
  m_free_slots.pop_back();
  return slot;
}

void Channel::release_unsent_slot(std::uint32_t slot) noexcept {
  const std::lock_guard lock(m_mutex);
  // The collector may not hand the same slot out twice.
  for (const std::uint32_t free : m_free_slots) {
    if (free == slot) return;
  }
  m_free_slots.push_back(slot);
  m_changed.notify_all();
}

bool Channel::push_record(const Record& record) noexcept {
  const std::uint64_t head = m_control->record_head.load(std::memory_order_relaxed);
  const auto begun = Clock::now();
  while (head - m_control->record_tail.load(std::memory_order_acquire) >= k_record_capacity) {
    if (Clock::now() - begun > silence_limit()) m_silent.store(true, std::memory_order_relaxed);
    if (!connected() || m_silent.load(std::memory_order_relaxed)) {
      m_control->untimed.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  if (m_silent.load(std::memory_order_relaxed)) m_silent.store(false, std::memory_order_relaxed);
  m_records[head % k_record_capacity] = record;
  m_control->record_head.store(head + 1, std::memory_order_release);
  return true;
}

void Channel::abandon_in_child() noexcept {
  m_active.store(false, std::memory_order_relaxed);
  m_connected.store(false, std::memory_order_relaxed);
  if (!owns_socket()) (void)m_socket.release();
  m_socket.reset();
}

}  // namespace kerncap::capture

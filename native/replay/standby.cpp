// The driver starts while the stage that started us still reads and writes what is to be replayed.
#include "replay/standby.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kerncap::replay {
namespace {

constexpr std::uint32_t k_most_bytes = 1 << 20;  // of words
constexpr unsigned char k_ready = 1;

// Up to so many bytes; fewer at the end of the input.
std::string read_input(std::size_t most) {
  std::string text;
  char piece[4096];
  while (text.size() < most) {
    const ssize_t count = ::read(STDIN_FILENO, piece, std::min(sizeof piece, most - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(piece, static_cast<std::size_t>(count));
  }
  return text;
}

// Of a replayer that is kept. Nothing: the input has ended, or makes no sense.
std::string read_counted() {
  std::uint32_t bytes = 0;
  const std::string head = read_input(sizeof bytes);
  if (head.size() != sizeof bytes) return {};
  std::memcpy(&bytes, head.data(), sizeof bytes);
  std::string text = bytes <= k_most_bytes ? read_input(bytes) : std::string();
  return text.size() == bytes ? text : std::string();
}

}  // namespace

Words::Words(int argc, char** argv, Driver& driver) : m_program(argv[0]) {
  const std::string_view how = argc == 3 ? argv[1] : "";
  const bool is_timed = how == "--keep-timed";
  if (how == "--standby") m_from = From::standby;
  if (how == "--keep" || is_timed) m_from = From::kept;
  if (m_from == From::command_line) {
    m_pointers.assign(argv, argv + argc + 1);
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string_view wanted = argv[2];
  std::uint32_t device = 0;
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), device);
  driver.start_early(device, is_timed);
}

bool Words::next() {
  if (m_from != From::kept && m_taken) return false;
  m_taken = true;
  if (m_from == From::command_line) return true;
  m_text = are_kept() ? read_counted() : read_input(std::string::npos);
  m_pointers.assign(1, m_program);
  for (std::size_t at = 0; at < m_text.size();) {
    m_pointers.push_back(&m_text[at]);
    const std::size_t end = m_text.find('\0', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  m_pointers.push_back(nullptr);
  return !m_text.empty();
}

void Words::tell(int exit_code) const noexcept {
  if (m_from != From::command_line) send(static_cast<unsigned char>(exit_code));
}

void Words::tell_ready() const noexcept { send(k_ready); }

void Words::send(unsigned char byte) const noexcept { (void)::send(STDIN_FILENO, &byte, sizeof byte, MSG_NOSIGNAL); }

}  // namespace kerncap::replay

// The driver starts while the stage that started us still reads and writes what is to be replayed.
#include "replay/standby.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string_view>

namespace kerncap::replay {
namespace {

std::string read_input() {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(piece, static_cast<std::size_t>(count));
  }
}

}  // namespace

Words::Words(int argc, char** argv, Driver& driver) {
  if (argc != 3 || std::string_view(argv[1]) != "--standby") {
    m_pointers.assign(argv, argv + argc + 1);
    return;
  }
  m_standby = true;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string_view wanted = argv[2];
  std::uint32_t device = 0;
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), device);
  driver.start_early(device);
  m_text = read_input();
  m_dismissed = m_text.empty();
  m_pointers.push_back(argv[0]);
  for (std::size_t at = 0; at < m_text.size(); at = m_text.find('\0', at) + 1) m_pointers.push_back(&m_text[at]);
  m_pointers.push_back(nullptr);
}

void Words::tell(int exit_code) const noexcept {
  const auto code = static_cast<unsigned char>(exit_code);
  if (m_standby) (void)::send(STDIN_FILENO, &code, sizeof code, MSG_NOSIGNAL);
}

}  // namespace kerncap::replay

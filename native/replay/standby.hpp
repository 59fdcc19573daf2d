// A replayer that is started before it is known what it replays: kc-replay-<back end> --standby DEVICE
//
// Its words come through standard input, a socket, each with a zero behind it, up to the end of the input. Once it is
// done, it sends its exit code there, in a byte: the device's driver takes a good part of a second to end.
#pragma once

#include <string>
#include <vector>

#include "replay/driver.hpp"

namespace kerncap::replay {

// The arguments to go on with, the program's name before them: those of the command line, or those that were waited for.
class Words {
 public:
  Words(int argc, char** argv, Driver& driver);

  // To the one who gave us the words, if there is one.
  void tell(int exit_code) const noexcept;
  // Nobody needs us: the input ended without a word.
  [[nodiscard]] bool is_dismissed() const noexcept { return m_dismissed; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(m_pointers.size()) - 1; }
  // As main() gets them, a null pointer behind.
  [[nodiscard]] char** values() noexcept { return m_pointers.data(); }

 private:
  std::string m_text;
  std::vector<char*> m_pointers;
  bool m_standby = false;
  bool m_dismissed = false;
};

}  // namespace kerncap::replay

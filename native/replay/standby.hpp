// A replayer that is started before it is known what it replays.
//
//   kc-replay-<back end> --standby DEVICE      for one replay
//   kc-replay-<back end> --keep DEVICE         for one after the other, none of them timed
//   kc-replay-<back end> --keep-timed DEVICE   the same for replays that are timed
//
// It talks through standard input, a socket:
//
//   words = word*                              of --standby, up to the end of the input
//   words = bytes:uint32 word*                 of --keep, in the machine's byte order; the end of the input dismisses it
//   word  = byte* 0                            as on the command line; `--set NAME=VALUE` sets an environment variable
//   told  = exit code:uint8                    as soon as the report is written
//   ready = 1:uint8                            of --keep: all of the replay was given back, and the next words may come
//
// The device's driver takes a good part of a second to end, so the exit code is told before. A replayer that is kept ends
// without `ready` when the replay did not complete, or when anything of it is left.
#pragma once

#include <string>
#include <vector>

#include "replay/driver.hpp"

namespace kerncap::replay {

// The arguments of one replay after the other, the program's name before them: those of the command line, or those that
// are waited for.
class Words {
 public:
  Words(int argc, char** argv, Driver& driver);

  // Waits for those of the next replay. False: there is none.
  [[nodiscard]] bool next();
  // To the one who gave us the words, if there is one.
  void tell(int exit_code) const noexcept;
  void tell_ready() const noexcept;
  [[nodiscard]] bool are_kept() const noexcept { return m_from == From::kept; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(m_pointers.size()) - 1; }
  // As main() gets them, a null pointer behind.
  [[nodiscard]] char** values() noexcept { return m_pointers.data(); }

 private:
  enum class From { command_line, standby, kept };
  void send(unsigned char byte) const noexcept;

  From m_from = From::command_line;
  char* m_program;
  std::string m_text;
  std::vector<char*> m_pointers;
  bool m_taken = false;                  // those that come once
};

}  // namespace kerncap::replay

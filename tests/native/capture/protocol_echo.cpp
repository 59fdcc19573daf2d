// Reads messages from standard input, each behind its length as u32, and writes each again as messages.hpp reads and
// writes it: for a test that both ends of the protocol mean the same. Ends with 1 at a message that it cannot read.
#include <stdio.h>

#include <vector>

#include "capture/messages.hpp"

using namespace kerncap::capture;

namespace {

bool echo(std::span<const std::byte> packet) {
  bool is_known = false;
  messages::for_each([&]<typename T>() {
    Reader reader(packet);
    if (reader.u32() != static_cast<std::uint32_t>(T::k_type)) return;
    const T value = T::read(reader);
    if (!reader.ok()) return;
    is_known = true;
    Message message(T::k_type);
    value.write(message);
    const auto size = static_cast<std::uint32_t>(message.size());
    fwrite(&size, sizeof size, 1, stdout);
    fwrite(message.view().data(), 1, size, stdout);
  });
  return is_known;
}

}  // namespace

int main() {
  std::uint32_t size;
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    std::vector<std::byte> packet(size);
    if (fread(packet.data(), 1, size, stdin) != size || !echo(packet)) return 1;
  }
}

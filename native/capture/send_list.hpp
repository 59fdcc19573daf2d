// Lists that may be longer than a message: a module's kernels and variables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/channel.hpp"

namespace kerncap::capture {

// Sends all items in as many messages as they need, at least one: owner:u64 count:u32 item*. `write(message, i)`
// appends one item. A name longer than half a message is cut by text(): symbols come nowhere near that.
template <typename Items, typename Write>
void send_list(Channel& channel, Up type, std::uint64_t owner, const Items& items, Write write) {
  std::size_t next = 0;
  do {
    Message message(type);
    message.u64(owner);
    const std::size_t count_at = message.size();
    message.u32(0);
    std::uint32_t count = 0;
    while (next < items.size() && message.room() > k_max_message_bytes / 2) {
      write(message, next);
      ++next;
      ++count;
    }
    message.patch_u32(count_at, count);
    channel.send(message);
  } while (next < items.size());
}

}  // namespace kerncap::capture

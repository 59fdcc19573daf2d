// Lists that may be longer than a message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/channel.hpp"

namespace kerncap::capture {

// Sends `count` items behind `head`, whose own list is empty, in as many messages as they need, at least one.
// `write(message, i)` appends item i. A name longer than half a message is cut by text(): symbols come nowhere near that.
template <typename List, typename Write>
void send_list(Channel& channel, const List& head, std::size_t count, Write write) {
  std::size_t next = 0;
  do {
    Message message(List::k_type);
    head.write_head(message);
    const std::size_t count_at = message.size();
    message.u32(0);
    std::uint32_t in_this_one = 0;
    while (next < count && message.room() > k_max_message_bytes / 2) {
      write(message, next);
      ++next;
      ++in_this_one;
    }
    message.patch_u32(count_at, in_this_one);
    channel.send(message);
  } while (next < count);
}

}  // namespace kerncap::capture

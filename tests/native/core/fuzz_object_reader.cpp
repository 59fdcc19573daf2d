// Fuzz target: bytes as they may lie in an object file. Whatever they are, reading ends, in bounded memory, with
// their payload or an error; and the ways of reading do not give different payloads.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/chunk_list.hpp"
#include "core/frame.hpp"
#include "core/object_store.hpp"
#include "core/unique_fd.hpp"

namespace core = kerncap::core;

namespace {

constexpr std::size_t k_most_payload_bytes = 4 << 20;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_as_chunk_list(std::string_view text) {
  const auto list = core::ChunkList::parse(text);
  if (!list) return;
  require(list.value().payload() == text);
  const std::uint64_t chunk_bytes = list.value().chunk_bytes;
  require(list.value().chunks.size() == (list.value().size_bytes + chunk_bytes - 1) / chunk_bytes);
}

void read_as_frame(std::span<const std::byte> frame) {
  const auto declared = core::declared_size(frame);
  if (!declared || declared.value() > k_most_payload_bytes) return;
  std::vector<std::byte> payload(declared.value());
  core::FrameReader reader;
  const bool read = reader.read(frame, payload).ok();
  const core::Digest digest = core::digest_of(payload);
  const core::UniqueFd file(::memfd_create("object", MFD_CLOEXEC));
  require(::write(file.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
  ::lseek(file.get(), 0, SEEK_SET);
  std::vector<std::byte> straight(payload.size());
  if (const auto raw = core::read_raw_frame(file.get(), straight); raw.ok() && raw.value()) {
    // It does not look behind the frame's end: the size of the file tells its callers.
    if (frame.size() == core::raw_frame_bytes(payload.size())) require(read && straight == payload);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  const bool streamed = core::stream_frame(file.get(), digest, -1).ok();
  core::ReadBuffers buffers;
  const bool verified = core::verify_file(file.get(), digest, buffers).ok();
  require(read == verified);
  // The library is stricter about malformed blocks in pieces than at once: the other way round would be a fault.
  if (streamed) require(read);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                                                             std::size_t size) {
  read_as_chunk_list({reinterpret_cast<const char*>(data), size});
  read_as_frame({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

// Reading a store: objects by digest, verified. The folder's layout is docs/store.md's; only this and
// transaction.cpp touch it natively.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/digest.hpp"
#include "core/frame.hpp"
#include "core/result.hpp"
#include "core/unique_fd.hpp"

namespace kerncap::core {

// Memory for reading objects; one per thread, kept between reads.
struct ReadBuffers {
  FrameReader reader;
  std::vector<std::byte> frame;
};

// Decompresses the frame that `frame` reads to its end, in pieces, to `out` or, if that is negative, nowhere. An
// error unless it is one whole frame of the payload that `digest` names. Returns the payload's size in bytes.
[[nodiscard]] Result<std::uint64_t> stream_frame(int frame, const Digest& digest, int out);

class ObjectStore {
 public:
  // The folder must be a store of a version that we know.
  [[nodiscard]] static Result<std::shared_ptr<ObjectStore>> open(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  [[nodiscard]] int folder() const noexcept { return m_folder.get(); }
  [[nodiscard]] int objects() const noexcept { return m_objects.get(); }

  // Where an object lies, below objects/.
  [[nodiscard]] static std::string relative_path(const Digest& digest);

  [[nodiscard]] bool has(const Digest& digest) const noexcept;

  // Size of the payload as its frame declares it.
  [[nodiscard]] Result<std::uint64_t> payload_bytes(const Digest& digest) const;

  // Fills `payload`, whose size the caller knows; nothing else is ever allocated for a frame's claims.
  [[nodiscard]] Result<void> read(const Digest& digest, std::span<std::byte> payload, bool verify,
                                  ReadBuffers& buffers) const;

  // Reads one object of a size that is not known beforehand, up to `most_bytes`.
  [[nodiscard]] Result<std::vector<std::byte>> read_whole(const Digest& digest, std::uint64_t most_bytes, bool verify,
                                                          ReadBuffers& buffers) const;

  // Decompresses in pieces, hashing them, to `fd` or, if that is negative, nowhere.
  [[nodiscard]] Result<std::uint64_t> stream(const Digest& digest, int fd) const;

 private:
  ObjectStore() = default;
  [[nodiscard]] static Error named(const Digest& digest, const Error& error);

  std::string m_path;
  UniqueFd m_folder;
  UniqueFd m_objects;
};

}  // namespace kerncap::core

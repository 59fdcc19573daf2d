// Reading a store: objects by digest, verified. The folder's layout is docs/store.md's; only this and staging.cpp
// touch it natively.
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
#include "core/store_lock.hpp"
#include "core/unique_fd.hpp"

namespace kerncap::core {

// Memory for reading objects; one per thread, kept between reads.
struct ReadBuffers {
  FrameReader reader;
  std::vector<std::byte> frame;
  std::vector<std::byte> payload;
};

// Decompresses the frame that `frame` reads to its end, in pieces, to `out` or, if that is negative, nowhere. An
// error unless it is one whole frame of the payload that `digest` names. Returns the payload's size in bytes.
[[nodiscard]] Result<std::uint64_t> stream_frame(int frame, const Digest& digest, int out);

// The same for a whole file and no output, at once if the payload is small.
[[nodiscard]] Result<std::uint64_t> verify_file(int file, const Digest& digest, ReadBuffers& buffers);

struct ObjectSizes {
  std::uint64_t stored_bytes = 0;
  std::uint64_t payload_bytes = 0;
};

// The error, with the object's name in front.
[[nodiscard]] Error named(const Digest& digest, const Error& error);

class ObjectStore {
 public:
  // The folder must be a store of a version that we know.
  [[nodiscard]] static Result<std::shared_ptr<ObjectStore>> open(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  // The error of a system call, with the store's path in front.
  [[nodiscard]] Error about(const Error& error) const { return {error.code, "the store " + m_path + ": " + error.message}; }
  [[nodiscard]] int folder() const noexcept { return m_folder.get(); }
  [[nodiscard]] int objects() const noexcept { return m_objects.get(); }

  // Reading takes no lock by itself: hold a shared one while several objects must stay together.
  [[nodiscard]] StoreLock& lock() const noexcept { return *m_lock; }

  // Where an object lies, below objects/.
  [[nodiscard]] static std::string relative_path(const Digest& digest);

  [[nodiscard]] bool has(const Digest& digest) const noexcept;

  // Sizes of an object's file and, as its frame declares it, of its payload.
  [[nodiscard]] Result<ObjectSizes> sizes(const Digest& digest) const;

  // Fills `payload`, whose size the caller knows; nothing else is ever allocated for a frame's claims.
  [[nodiscard]] Result<void> read(const Digest& digest, std::span<std::byte> payload, bool verify,
                                  ReadBuffers& buffers) const;

  // Reads one object of a size that is not known beforehand, up to `most_bytes`. With `staging`, a transaction's
  // folder, an object that is staged there is found as well.
  [[nodiscard]] Result<std::vector<std::byte>> read_whole(const Digest& digest, std::uint64_t most_bytes, bool verify,
                                                          ReadBuffers& buffers, int staging = -1) const;

  // Decompresses in pieces, hashing them, to `fd`.
  [[nodiscard]] Result<std::uint64_t> stream(const Digest& digest, int fd) const;

  // Reads the object and hashes it. Memory stays bounded whatever its frame declares.
  [[nodiscard]] Result<void> verify(const Digest& digest, ReadBuffers& buffers) const;

 private:
  ObjectStore() = default;
  [[nodiscard]] Result<void> read_exactly(const Digest& digest, std::span<std::byte> payload, bool verify,
                                          ReadBuffers& buffers) const;
  [[nodiscard]] Result<bool> read_if_raw(const Digest& digest, std::span<std::byte> payload) const;

  std::string m_path;
  UniqueFd m_folder;
  UniqueFd m_objects;
  std::unique_ptr<StoreLock> m_lock;
};

}  // namespace kerncap::core

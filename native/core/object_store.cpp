// Reading objects. Every error names the object, and damage is told apart from absence.
#include "core/object_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>

#include "core/file.hpp"

namespace kerncap::core {
namespace {

constexpr std::string_view k_format = "kerncap-store 1\n";
constexpr std::size_t k_header_bytes = 18;  // the longest frame header
constexpr std::size_t k_stream_bytes = 1024 * 1024;
constexpr std::uint64_t k_buffered_bytes = 8 * 1024 * 1024;  // larger payloads are verified in pieces

Result<void> decode(std::span<const std::byte> frame, const Digest& digest, std::span<std::byte> payload, bool verify,
                    FrameReader& reader) {
  auto size = declared_size(frame);
  if (!size) return size.error();
  if (size.value() != payload.size()) {
    return Error{ErrorCode::damaged,
                 "declares " + std::to_string(size.value()) + " bytes, not " + std::to_string(payload.size())};
  }
  if (auto status = reader.read(frame, payload); !status) return status;
  if (verify && digest_of(payload) != digest) {
    return Error{ErrorCode::damaged, "its bytes do not hash to its name"};
  }
  return {};
}

// Raw blocks are the longest form of a frame: three bytes for each 128 KiB, and a header.
std::size_t longest_frame(std::uint64_t payload_bytes) { return ZSTD_compressBound(payload_bytes) + 64; }

}  // namespace

Error named(const Digest& digest, const Error& error) {
  if (error.code == ErrorCode::not_found) return {ErrorCode::not_found, "object " + digest.hex() + " is missing"};
  return {error.code, "object " + digest.hex() + ": " + error.message};
}

Result<std::shared_ptr<ObjectStore>> ObjectStore::open(const std::string& path) {
  auto store = std::shared_ptr<ObjectStore>(new ObjectStore);
  store->m_path = path;
  const int folder = ::open(path.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  if (folder < 0) return errno_error("cannot open the store " + path, errno);
  store->m_folder = UniqueFd(folder);
  std::vector<std::byte> buffer;
  auto format = read_file(folder, "format", buffer, 4096);
  if (!format) {
    return Error{format.error().code == ErrorCode::not_found ? ErrorCode::invalid_argument : format.error().code,
                 path + " is not a store: " + format.error().message};
  }
  const std::string_view text(reinterpret_cast<const char*>(format.value().data()), format.value().size());
  if (text != k_format) return Error{ErrorCode::unsupported, path + " is a store of a format that we do not know"};
  auto objects = open_at(folder, "objects", O_DIRECTORY);
  if (!objects) return objects.error();
  store->m_objects = std::move(objects).value();
  store->m_lock = std::make_unique<StoreLock>(folder);
  return store;
}

std::string ObjectStore::relative_path(const Digest& digest) {
  const std::string name = digest.hex();
  return name.substr(0, 2) + '/' + name;
}

bool ObjectStore::has(const Digest& digest) const noexcept {
  struct stat status {};
  return ::fstatat(m_objects.get(), relative_path(digest).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode);
}

Result<ObjectSizes> ObjectStore::sizes(const Digest& digest) const {
  auto file = open_at(m_objects.get(), relative_path(digest), O_RDONLY | O_NONBLOCK);
  if (!file) return named(digest, file.error());
  struct stat status {};
  if (::fstat(file.value().get(), &status) != 0) return named(digest, errno_error("cannot stat", errno));
  std::byte header[k_header_bytes];
  const ssize_t count = ::read(file.value().get(), header, sizeof header);
  if (count < 0) return named(digest, errno_error("cannot read", errno));
  auto size = declared_size(std::span(header).first(static_cast<std::size_t>(count)));
  if (!size) return named(digest, size.error());
  return ObjectSizes{static_cast<std::uint64_t>(status.st_size), size.value()};
}

// Whether the object is a frame of raw blocks; then its payload is read.
Result<bool> ObjectStore::read_if_raw(const Digest& digest, std::span<std::byte> payload) const {
  auto file = open_at(m_objects.get(), relative_path(digest), O_RDONLY | O_NONBLOCK);
  if (!file) return file.error();
  struct stat status {};
  if (::fstat(file.value().get(), &status) != 0) return errno_error("cannot stat", errno);
  if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) != raw_frame_bytes(payload.size())) {
    return false;
  }
  return read_raw_frame(file.value().get(), payload);
}

Result<void> ObjectStore::read_exactly(const Digest& digest, std::span<std::byte> payload, bool verify,
                                       ReadBuffers& buffers) const {
  auto raw = read_if_raw(digest, payload);
  if (!raw) return raw.error();
  if (raw.value()) {
    if (!verify || digest_of(payload) == digest) return {};
    return Error{ErrorCode::damaged, "its bytes do not hash to its name"};
  }
  auto frame = read_file(m_objects.get(), relative_path(digest), buffers.frame, longest_frame(payload.size()));
  if (!frame) return frame.error();
  return decode(frame.value(), digest, payload, verify, buffers.reader);
}

Result<void> ObjectStore::read(const Digest& digest, std::span<std::byte> payload, bool verify,
                               ReadBuffers& buffers) const {
  auto status = read_exactly(digest, payload, verify, buffers);
  if (status) return status;
  // A whole object of another size than its reader was told: what refers to it is wrong.
  const auto found = sizes(digest);
  if (status.error().code == ErrorCode::damaged && found && found.value().payload_bytes != payload.size() &&
      this->verify(digest, buffers)) {
    return named(digest, {ErrorCode::malformed, "has " + std::to_string(found.value().payload_bytes) +
                                                    " bytes, and what refers to it says " +
                                                    std::to_string(payload.size())});
  }
  return named(digest, status.error());
}

Result<std::vector<std::byte>> ObjectStore::read_whole(const Digest& digest, std::uint64_t most_bytes, bool verify,
                                                       ReadBuffers& buffers, int staging) const {
  const std::size_t longest = longest_frame(most_bytes);
  auto frame = staging < 0 ? read_file(m_objects.get(), relative_path(digest), buffers.frame, longest)
                           : read_file(staging, digest.hex(), buffers.frame, longest);
  if (!frame) {
    if (staging >= 0 && frame.error().code == ErrorCode::not_found) {
      return read_whole(digest, most_bytes, verify, buffers);
    }
    return named(digest, frame.error());
  }
  auto size = declared_size(frame.value());
  if (!size) return named(digest, size.error());
  if (size.value() > most_bytes) {
    return named(digest, {ErrorCode::damaged, "declares " + std::to_string(size.value()) + " bytes, more than the " +
                                                  std::to_string(most_bytes) + " that it may have"});
  }
  std::vector<std::byte> payload(size.value());
  if (auto status = decode(frame.value(), digest, payload, verify, buffers.reader); !status) {
    return named(digest, status.error());
  }
  return payload;
}

Result<std::uint64_t> stream_frame(int frame, const Digest& digest, int out) {
  const auto context = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  std::vector<std::byte> packed(k_stream_bytes);
  std::vector<std::byte> piece(k_stream_bytes);
  Hasher hasher;
  std::uint64_t declared = 0;
  std::uint64_t total = 0;
  std::size_t expected = 1;  // what the decompressor still wants; 0 at the end of the frame
  for (bool first = true;;) {
    const ssize_t count = ::read(frame, packed.data(), packed.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot read", errno);
    if (count == 0) break;
    if (first) {
      auto size = declared_size(std::span(packed).first(static_cast<std::size_t>(count)));
      if (!size) return size.error();
      declared = size.value();
      first = false;
    }
    ZSTD_inBuffer input{packed.data(), static_cast<std::size_t>(count), 0};
    for (bool full = false; input.pos < input.size || full;) {
      if (expected == 0) return Error{ErrorCode::damaged, "bytes behind the end of the frame"};
      ZSTD_outBuffer output{piece.data(), piece.size(), 0};
      expected = ZSTD_decompressStream(context.get(), &output, &input);
      if (ZSTD_isError(expected)) return Error{ErrorCode::damaged, ZSTD_getErrorName(expected)};
      full = expected != 0 && output.pos == output.size;  // the decompressor may hold more
      total += output.pos;
      if (total > declared) return Error{ErrorCode::damaged, "holds more than it declares"};
      const auto bytes = std::span<const std::byte>(piece).first(output.pos);
      hasher.update(bytes);
      if (out >= 0) {
        if (auto status = write_all(out, bytes); !status) return status.error();
      }
    }
  }
  if (expected != 0 || total != declared) return Error{ErrorCode::damaged, "truncated frame"};
  if (hasher.finish() != digest) return Error{ErrorCode::damaged, "its bytes do not hash to its name"};
  return total;
}

Result<std::uint64_t> verify_file(int file, const Digest& digest, ReadBuffers& buffers) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return errno_error("cannot stat", errno);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::damaged, "not a file"};
  if (::lseek(file, 0, SEEK_SET) != 0) return errno_error("cannot rewind", errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > longest_frame(k_buffered_bytes)) return stream_frame(file, digest, -1);
  if (buffers.frame.size() < size) buffers.frame.resize(size);
  auto count = read_fully(file, std::span(buffers.frame).first(size), "the object");
  if (!count) return count.error();
  const auto frame = std::span<const std::byte>(buffers.frame).first(count.value());
  auto declared = declared_size(frame);
  if (!declared) return declared.error();
  if (declared.value() > k_buffered_bytes) {
    if (::lseek(file, 0, SEEK_SET) != 0) return errno_error("cannot rewind", errno);
    return stream_frame(file, digest, -1);
  }
  if (buffers.payload.size() < declared.value()) buffers.payload.resize(declared.value());
  auto decoded = decode(frame, digest, std::span(buffers.payload).first(declared.value()), true, buffers.reader);
  if (!decoded) return decoded.error();
  return declared;
}

Result<void> ObjectStore::verify(const Digest& digest, ReadBuffers& buffers) const {
  auto file = open_at(m_objects.get(), relative_path(digest), O_RDONLY | O_NONBLOCK);
  if (!file) return named(digest, file.error());
  auto verified = verify_file(file.value().get(), digest, buffers);
  if (!verified) return named(digest, verified.error());
  return {};
}

Result<std::uint64_t> ObjectStore::stream(const Digest& digest, int fd) const {
  auto file = open_at(m_objects.get(), relative_path(digest), O_RDONLY | O_NONBLOCK);
  if (!file) return named(digest, file.error());
  auto total = stream_frame(file.value().get(), digest, fd);
  if (!total) return named(digest, total.error());
  return total;
}

}  // namespace kerncap::core

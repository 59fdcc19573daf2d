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

}  // namespace

Result<std::shared_ptr<ObjectStore>> ObjectStore::open(const std::string& path) {
  auto store = std::shared_ptr<ObjectStore>(new ObjectStore);
  store->m_path = path;
  const int folder = ::open(path.c_str(), O_DIRECTORY | O_CLOEXEC);
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

Error ObjectStore::named(const Digest& digest, const Error& error) {
  if (error.code == ErrorCode::not_found) return {ErrorCode::not_found, "object " + digest.hex() + " is missing"};
  return {error.code, "object " + digest.hex() + ": " + error.message};
}

Result<std::uint64_t> ObjectStore::payload_bytes(const Digest& digest) const {
  auto file = open_at(m_objects.get(), relative_path(digest), O_RDONLY);
  if (!file) return named(digest, file.error());
  std::byte header[k_header_bytes];
  const ssize_t count = ::read(file.value().get(), header, sizeof header);
  if (count < 0) return named(digest, errno_error("cannot read", errno));
  auto size = declared_size(std::span(header).first(static_cast<std::size_t>(count)));
  if (!size) return named(digest, size.error());
  return size;
}

Result<void> ObjectStore::read(const Digest& digest, std::span<std::byte> payload, bool verify,
                               ReadBuffers& buffers) const {
  // Raw blocks are the longest form of a frame: three bytes for each 128 KiB, and a header.
  const std::size_t most = ZSTD_compressBound(payload.size()) + 64;
  auto frame = read_file(m_objects.get(), relative_path(digest), buffers.frame, most);
  if (!frame) return named(digest, frame.error());
  auto size = declared_size(frame.value());
  if (!size) return named(digest, size.error());
  if (size.value() != payload.size()) {
    return named(digest, {ErrorCode::damaged, "declares " + std::to_string(size.value()) + " bytes, not " +
                                                  std::to_string(payload.size())});
  }
  if (auto status = buffers.reader.read(frame.value(), payload); !status) return named(digest, status.error());
  if (verify && digest_of(payload) != digest) {
    return named(digest, {ErrorCode::damaged, "its bytes do not hash to its name"});
  }
  return {};
}

Result<std::vector<std::byte>> ObjectStore::read_whole(const Digest& digest, std::uint64_t most_bytes, bool verify,
                                                       ReadBuffers& buffers) const {
  auto size = payload_bytes(digest);
  if (!size) return size.error();
  if (size.value() > most_bytes) {
    return named(digest, {ErrorCode::damaged, "declares " + std::to_string(size.value()) + " bytes, more than the " +
                                                  std::to_string(most_bytes) + " that are read at once"});
  }
  std::vector<std::byte> payload(size.value());
  if (auto status = read(digest, payload, verify, buffers); !status) return status.error();
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

Result<std::uint64_t> ObjectStore::stream(const Digest& digest, int fd) const {
  auto file = open_at(m_objects.get(), relative_path(digest), O_RDONLY | O_NONBLOCK);
  if (!file) return named(digest, file.error());
  auto total = stream_frame(file.value().get(), digest, fd);
  if (!total) return named(digest, total.error());
  return total;
}

}  // namespace kerncap::core

// Frames by libzstd, except those of incompressible payloads, whose raw blocks are written straight from the
// caller's memory: the library would copy every byte twice and search for matches that are not there.
#include "core/frame.hpp"

#include <sys/uio.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/file.hpp"

namespace kerncap::core {
namespace {

constexpr int k_level = 1;  // float data gains nothing from higher levels; the speed matters
constexpr std::size_t k_probe_bytes = 8 * 1024;  // four of these cost 7 % of hashing 1 MiB of noise
constexpr std::size_t k_probes = 4;
constexpr double k_least_gain = 0.05;
constexpr std::size_t k_block_bytes = 128 * 1024;     // the largest block that the format allows
constexpr std::size_t k_blocks_per_call = 256;        // two iovecs a block, and Linux takes 1024
constexpr std::size_t k_stream_bytes = 1024 * 1024;
constexpr std::size_t k_at_once_bytes = 8 * 1024 * 1024;  // larger payloads are compressed in pieces

// Magic, descriptor (eight-byte content size, no checksum), window of 1 MiB, content size: RFC 8878, 3.1.1.
constexpr std::size_t k_frame_header_bytes = 4 + 1 + 1 + 8;

// Sixteen empty raw blocks before a payload of more than a page. Without them each byte went to the page cache a few
// bytes beyond where it lay within its page in memory that malloc gave, and a processor takes such a load for one of
// the bytes just stored (they agree in their lower 12 bits): the kernel's copy took 620 us for 1 MiB instead of 470.
constexpr std::size_t k_padding_bytes = 16 * 3;
constexpr std::size_t k_most_unpadded_bytes = 4096;

std::size_t raw_header_bytes(std::uint64_t content_bytes) {
  return k_frame_header_bytes + (content_bytes > k_most_unpadded_bytes ? k_padding_bytes : 0);
}

// Its first raw_header_bytes(); the header of an empty raw block that is not the last is three bytes of zero.
std::array<std::byte, k_frame_header_bytes + k_padding_bytes> raw_header(std::uint64_t content_bytes) {
  std::array<std::byte, k_frame_header_bytes + k_padding_bytes> header{
      std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F}, std::byte{0xFD}, std::byte{0xC0}, std::byte{0x50}};
  std::memcpy(&header[6], &content_bytes, sizeof content_bytes);
  return header;
}

// One zstd raw block: three bytes of header, then the bytes themselves.
std::array<std::byte, 3> block_header(std::size_t bytes, bool last) {
  const std::uint32_t value = static_cast<std::uint32_t>(bytes) << 3 | (last ? 1u : 0u);
  return {static_cast<std::byte>(value), static_cast<std::byte>(value >> 8), static_cast<std::byte>(value >> 16)};
}

Result<std::size_t> write_raw(int fd, std::span<const std::byte> payload) {
  auto header = raw_header(payload.size());
  std::size_t written = raw_header_bytes(payload.size());
  std::vector<std::array<std::byte, 3>> headers;
  std::vector<iovec> pieces{{header.data(), written}};
  std::size_t done = 0;
  do {
    const std::size_t blocks = std::clamp<std::size_t>((payload.size() - done + k_block_bytes - 1) / k_block_bytes, 1,
                                                       k_blocks_per_call);
    headers.resize(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t bytes = std::min(k_block_bytes, payload.size() - done);
      headers[i] = block_header(bytes, done + bytes == payload.size());
      pieces.push_back({headers[i].data(), headers[i].size()});
      pieces.push_back({const_cast<std::byte*>(payload.data() + done), bytes});
      done += bytes;
      written += headers[i].size() + bytes;
    }
    if (auto status = write_pieces(fd, pieces); !status) return status.error();
    pieces.clear();
  } while (done < payload.size());
  return written;
}

std::size_t blocks_of(std::size_t payload_bytes) {
  return std::max<std::size_t>(1, (payload_bytes + k_block_bytes - 1) / k_block_bytes);
}

Error zstd_error(const char* what, std::size_t code) {
  return {ErrorCode::damaged, std::string(what) + ": " + ZSTD_getErrorName(code)};
}

}  // namespace

std::size_t raw_frame_bytes(std::size_t payload_bytes) noexcept {
  return raw_header_bytes(payload_bytes) + 3 * blocks_of(payload_bytes) + payload_bytes;
}

Result<bool> read_raw_frame(int fd, std::span<std::byte> payload) {
  decltype(raw_header(0)) header{};  // a short one leaves the rest of it zero
  const std::size_t header_bytes = raw_header_bytes(payload.size());
  std::vector<std::array<std::byte, 3>> headers;
  std::vector<iovec> pieces{{header.data(), header_bytes}};
  std::size_t done = 0;
  do {
    const std::size_t start = done;
    headers.resize(std::min(blocks_of(payload.size() - done), k_blocks_per_call));
    std::size_t wanted = pieces.empty() ? 0 : header_bytes;
    for (auto& block : headers) {
      const std::size_t bytes = std::min(k_block_bytes, payload.size() - done);
      pieces.push_back({block.data(), block.size()});
      pieces.push_back({payload.data() + done, bytes});
      done += bytes;
      wanted += block.size() + bytes;
    }
    auto count = read_pieces(fd, pieces);
    if (!count) return count.error();
    if (count.value() != wanted || header != raw_header(payload.size())) return false;
    for (std::size_t i = 0, at = start; i < headers.size(); ++i) {
      const std::size_t bytes = std::min(k_block_bytes, payload.size() - at);
      at += bytes;
      if (headers[i] != block_header(bytes, at == payload.size())) return false;
    }
    pieces.clear();
  } while (done < payload.size());
  return true;
}

FrameWriter::FrameWriter() : m_context(ZSTD_createCCtx()) {
  ZSTD_CCtx_setParameter(m_context.get(), ZSTD_c_compressionLevel, k_level);
}

bool FrameWriter::compressible(std::span<const std::byte> payload) {
  std::size_t sampled = 0;
  std::size_t compressed = 0;
  m_buffer.resize(std::max(m_buffer.size(), ZSTD_compressBound(k_probe_bytes)));
  for (const std::size_t part : {0, 2, 1, 3}) {
    // Noise at the beginning and in the middle is noise throughout: hashing is not to wait for two more.
    if (part == 1 && compressed >= sampled) return false;
    const std::size_t start = payload.size() / k_probes * part;
    const auto sample = payload.subspan(start, std::min(k_probe_bytes, payload.size() - start));
    const std::size_t bytes =
        ZSTD_compress2(m_context.get(), m_buffer.data(), m_buffer.size(), sample.data(), sample.size());
    if (ZSTD_isError(bytes)) return true;
    sampled += sample.size();
    compressed += bytes;
  }
  return static_cast<double>(compressed) <= (1.0 - k_least_gain) * static_cast<double>(sampled);
}

Result<std::size_t> FrameWriter::write(int fd, std::span<const std::byte> payload) {
  if (payload.size() >= 2 * k_probes * k_probe_bytes && !compressible(payload)) return write_raw(fd, payload);
  if (payload.size() > k_at_once_bytes) {
    if (auto begun = begin(payload.size()); !begun) return begun.error();
    return append(fd, payload, true);
  }
  m_buffer.resize(std::max(m_buffer.size(), ZSTD_compressBound(payload.size())));
  const std::size_t bytes =
      ZSTD_compress2(m_context.get(), m_buffer.data(), m_buffer.size(), payload.data(), payload.size());
  if (ZSTD_isError(bytes)) return zstd_error("cannot compress", bytes);
  if (static_cast<double>(bytes) > (1.0 - k_least_gain) * static_cast<double>(payload.size())) {
    return write_raw(fd, payload);
  }
  if (auto status = write_all(fd, std::span(m_buffer).first(bytes)); !status) return status.error();
  return bytes;
}

Result<void> FrameWriter::begin(std::uint64_t content_bytes) {
  ZSTD_CCtx_reset(m_context.get(), ZSTD_reset_session_only);
  const std::size_t code = ZSTD_CCtx_setPledgedSrcSize(m_context.get(), content_bytes);
  if (ZSTD_isError(code)) return zstd_error("cannot compress", code);
  m_buffer.resize(std::max(m_buffer.size(), k_stream_bytes));
  return {};
}

Result<std::size_t> FrameWriter::append(int fd, std::span<const std::byte> piece, bool last) {
  ZSTD_inBuffer input{piece.data(), piece.size(), 0};
  std::size_t written = 0;
  for (;;) {
    ZSTD_outBuffer output{m_buffer.data(), m_buffer.size(), 0};
    const std::size_t left =
        ZSTD_compressStream2(m_context.get(), &output, &input, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) return zstd_error("cannot compress", left);
    if (auto status = write_all(fd, std::span(m_buffer).first(output.pos)); !status) return status.error();
    written += output.pos;
    if (last ? left == 0 : input.pos == input.size) return written;
  }
}

void FrameWriter::Free::operator()(ZSTD_CCtx_s* context) const noexcept { ZSTD_freeCCtx(context); }

Result<std::uint64_t> declared_size(std::span<const std::byte> frame) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
    return Error{ErrorCode::damaged, "not a zstd frame with a content size"};
  }
  return static_cast<std::uint64_t>(size);
}

FrameReader::FrameReader() : m_context(ZSTD_createDCtx()) {}

Result<void> FrameReader::read(std::span<const std::byte> frame, std::span<std::byte> payload) {
  const std::size_t whole = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(whole)) return zstd_error("truncated or malformed frame", whole);
  if (whole != frame.size()) return Error{ErrorCode::damaged, "bytes behind the end of the frame"};
  const std::size_t bytes =
      ZSTD_decompressDCtx(m_context.get(), payload.data(), payload.size(), frame.data(), frame.size());
  if (ZSTD_isError(bytes)) return zstd_error("malformed frame", bytes);
  if (bytes != payload.size()) return Error{ErrorCode::damaged, "the payload is shorter than declared"};
  return {};
}

void FrameReader::Free::operator()(ZSTD_DCtx_s* context) const noexcept { ZSTD_freeDCtx(context); }

}  // namespace kerncap::core

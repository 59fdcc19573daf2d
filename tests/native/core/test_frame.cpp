// Frames: what is written is one zstd frame that the library itself reads, raw where nothing is gained.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <vector>

#include "../check.hpp"
#include "core/frame.hpp"
#include "core/object_store.hpp"
#include "core/unique_fd.hpp"
#include "scratch_store.hpp"

using namespace kerncap;
using test::Bytes;

namespace {

Bytes contents(int fd) {
  Bytes bytes(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)));
  CHECK(::pread(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

Bytes frame_of(const Bytes& payload) {
  core::FrameWriter writer;
  const core::UniqueFd file(::memfd_create("frame", MFD_CLOEXEC));
  const auto written = writer.write(file.get(), payload);
  CHECK(written.ok());
  Bytes frame = contents(file.get());
  CHECK(written.value() == frame.size());
  return frame;
}

constexpr std::size_t k_block = 128 * 1024;

void test_any_size_is_one_frame_that_zstd_reads() {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, k_block - 1, k_block, k_block + 1,
                           8 * k_block, 64 * k_block, 64 * k_block + 1, 300 * k_block + 77}) {
    for (bool compressible : {false, true}) {
      Bytes payload = test::random_bytes(size);
      if (compressible) for (auto& byte : payload) byte &= std::byte{3};
      const Bytes frame = frame_of(payload);
      CHECK(ZSTD_findFrameCompressedSize(frame.data(), frame.size()) == frame.size());
      CHECK(ZSTD_getFrameContentSize(frame.data(), frame.size()) == size);
      Bytes again(size + 1);
      CHECK(ZSTD_decompress(again.data(), again.size(), frame.data(), frame.size()) == size);
      again.resize(size);
      CHECK(again == payload);
      Bytes read(size);
      core::FrameReader reader;
      CHECK(reader.read(frame, read).ok());
      CHECK(read == payload);
      if (size > k_block) CHECK(compressible ? frame.size() < size / 2 : frame.size() < size + size / 1000 + 32);
    }
  }
}

// True and the payload, or false.
bool read_raw(const Bytes& frame, Bytes& payload) {
  const core::UniqueFd file(::memfd_create("frame", MFD_CLOEXEC));
  CHECK(::write(file.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
  ::lseek(file.get(), 0, SEEK_SET);
  const auto read = core::read_raw_frame(file.get(), payload);
  CHECK(read.ok());
  return read.value();
}

void test_raw_frames_are_read_without_a_copy_and_no_others() {
  for (std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, 4 * k_block, 4 * k_block + 1, 256 * k_block, 300 * k_block + 77}) {
    const Bytes payload = test::random_bytes(size);
    const Bytes frame = frame_of(payload);
    CHECK(frame.size() == core::raw_frame_bytes(size));
    Bytes again(size);
    CHECK(read_raw(frame, again));
    CHECK(again == payload);
    // Frame header, the block header behind it, first and last one of the payload: another bit is another frame.
    const std::size_t first = frame.size() - size - 3 * ((size + k_block - 1) / k_block);
    const std::size_t last = frame.size() - (size % k_block == 0 ? k_block : size % k_block) - 3;
    for (std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{6}, std::size_t{14}, first, last}) {
      Bytes changed = frame;
      changed[at] ^= std::byte{1};
      CHECK(!read_raw(changed, again));
    }
    Bytes shorter = frame;
    shorter.pop_back();
    CHECK(!read_raw(shorter, again));
  }
}

void test_incompressible_payloads_are_raw_blocks() {
  const Bytes frame = frame_of(test::random_bytes(1024 * 1024));
  CHECK(frame.size() == 1024 * 1024 + 14 + 16 * 3 + 8 * 3);
  CHECK(frame[4] == std::byte{0xC0} && frame[5] == std::byte{0x50});
}

void test_pieces_make_the_same_payload() {
  const Bytes payload = test::random_bytes(5'000'001);
  core::FrameWriter writer;
  const core::UniqueFd file(::memfd_create("frame", MFD_CLOEXEC));
  CHECK(writer.begin(payload.size()).ok());
  for (std::size_t start = 0; start < payload.size(); start += 700'000) {
    const auto piece = std::span(payload).subspan(start, std::min<std::size_t>(700'000, payload.size() - start));
    CHECK(writer.append(file.get(), piece, start + piece.size() == payload.size()).ok());
  }
  const Bytes frame = contents(file.get());
  Bytes read(payload.size());
  core::FrameReader reader;
  CHECK(reader.read(frame, read).ok());
  CHECK(read == payload);
}

void test_only_the_exact_frame_is_read() {
  const Bytes payload = test::random_bytes(200'000);
  const Bytes frame = frame_of(payload);
  core::FrameReader reader;
  for (std::size_t size : {payload.size() - 1, payload.size() + 1, std::size_t{0}}) {
    Bytes read(size);
    CHECK(!reader.read(frame, read).ok());
  }
  Bytes read(payload.size());
  for (std::size_t cut : {std::size_t{0}, std::size_t{3}, std::size_t{13}, std::size_t{14}, std::size_t{17}, k_block,
                          frame.size() - 1}) {
    CHECK(!reader.read(std::span(frame).first(cut), read).ok());
  }
  Bytes longer = frame;
  longer.push_back(std::byte{0});
  CHECK(!reader.read(longer, read).ok());
}

void test_streaming_verifies() {
  const Bytes payload = test::random_bytes(10'000'000);
  const core::Digest digest = core::digest_of(payload);
  const Bytes frame = frame_of(payload);
  const core::UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  const auto stream = [&](const Bytes& bytes, const core::Digest& name, int target) {
    const core::UniqueFd file(::memfd_create("frame", MFD_CLOEXEC));
    CHECK(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::lseek(file.get(), 0, SEEK_SET);
    return core::stream_frame(file.get(), name, target);
  };
  const auto streamed = stream(frame, digest, out.get());
  CHECK(streamed.ok() && streamed.value() == payload.size());
  CHECK(contents(out.get()) == payload);
  CHECK(!stream(frame, core::digest_of({}), -1).ok());
  for (std::size_t cut : {std::size_t{0}, std::size_t{5}, std::size_t{14}, frame.size() / 2, frame.size() - 1}) {
    CHECK(!stream(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(cut)), digest, -1).ok());
  }
  Bytes twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  CHECK(!stream(twice, digest, -1).ok());
}

}  // namespace

int main() {
  test_any_size_is_one_frame_that_zstd_reads();
  test_raw_frames_are_read_without_a_copy_and_no_others();
  test_incompressible_payloads_are_raw_blocks();
  test_pieces_make_the_same_payload();
  test_only_the_exact_frame_is_read();
  test_streaming_verifies();
  return test::exit_code();
}

// The ceilings of the store's benchmarks: the plainest loops that do the same work on all cores, loaded by
// plain_loops.py. They share no code with the store. Each returns seconds, or minus errno.
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

const EVP_MD* sha256() {
  static const EVP_MD* const s_algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return s_algorithm;
}

bool hash(const void* bytes, std::size_t size) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  return EVP_Digest(bytes, size, digest, nullptr, sha256(), nullptr) == 1;
}

// Calls `work(item)`, which returns 0 or an errno, for each item on `threads` threads.
double timed(std::size_t count, int threads, const std::function<int(std::size_t)>& work,
             const std::function<int()>& finish = [] { return 0; }) {
  std::atomic<std::size_t> next = 0;
  std::atomic<int> failure = 0;
  const auto take = [&] {
    for (std::size_t item; failure == 0 && (item = next++) < count;) {
      if (const int error = work(item); error != 0) failure = error;
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(take);
  take();
  for (auto& thread : others) thread.join();
  if (failure == 0) failure = finish();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return failure != 0 ? -failure.load() : taken.count();
}

int write_file(const std::string& path, const std::uint8_t* bytes, std::size_t size) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
  if (fd < 0) return errno;
  int error = 0;
  while (size > 0 && error == 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written < 0) {
      error = errno;
    } else {
      bytes += written;
      size -= static_cast<std::size_t>(written);
    }
  }
  ::close(fd);
  return error;
}

int hash_file(const std::string& path, std::vector<std::uint8_t>& buffer) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  struct stat status {};
  ::fstat(fd, &status);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (buffer.size() < size) buffer.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(fd, buffer.data() + done, size - done);
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  ::close(fd);
  return done == size && hash(buffer.data(), size) ? 0 : EIO;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Fills memory with bytes that nothing compresses and that differ from chunk to chunk and from seed to seed.
EXPORTED double plain_fill(std::uint8_t* memory, std::size_t size, std::uint64_t seed, int threads) {
  constexpr std::size_t k_piece = 1 << 20;
  return timed((size + k_piece - 1) / k_piece, threads, [=](std::size_t item) {
    std::uint64_t state = seed * 0x9E3779B97F4A7C15u + item * 0xD1B54A32D192ED03u;
    const std::size_t end = std::min(size, (item + 1) * k_piece);
    for (std::size_t at = item * k_piece; at < end; at += sizeof state) {
      std::uint64_t word = (state += 0x9E3779B97F4A7C15u);  // splitmix64
      word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
      word = (word ^ word >> 27) * 0x94D049BB133111EBu;
      word ^= word >> 31;
      std::memcpy(memory + at, &word, std::min(sizeof word, end - at));
    }
    return 0;
  });
}

// Reads memory once.
EXPORTED double plain_read(const std::uint8_t* memory, std::size_t size, std::size_t chunk, int threads) {
  std::atomic<std::uint64_t> seen = 0;
  return timed((size + chunk - 1) / chunk, threads, [=, &seen](std::size_t item) {
    std::uint64_t sum = 0;
    const std::size_t end = std::min(size, (item + 1) * chunk) & ~std::size_t{7};
    for (std::size_t at = item * chunk; at < end; at += 8) {
      std::uint64_t word;
      std::memcpy(&word, memory + at, sizeof word);
      sum |= word;
    }
    seen |= sum;
    return 0;
  });
}

// Hashes each chunk of memory.
EXPORTED double plain_hash(const std::uint8_t* memory, std::size_t size, std::size_t chunk, int threads) {
  return timed((size + chunk - 1) / chunk, threads, [=](std::size_t item) {
    const std::size_t start = item * chunk;
    return hash(memory + start, std::min(chunk, size - start)) ? 0 : EIO;
  });
}

// Hashes each chunk, writes it as a file of its own, and waits for the disk at the end.
EXPORTED double plain_hash_and_write(const std::uint8_t* memory, std::size_t size, std::size_t chunk, int threads,
                                     const char* folder) {
  const std::string top = folder;
  const auto put = [=, &top](std::size_t item) {
    const std::size_t start = item * chunk;
    const std::size_t bytes = std::min(chunk, size - start);
    if (!hash(memory + start, bytes)) return EIO;
    return write_file(top + '/' + std::to_string(item), memory + start, bytes);
  };
  return timed((size + chunk - 1) / chunk, threads, put, [&top] {
    const int fd = ::open(top.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    const int error = fd < 0 || ::syncfs(fd) != 0 ? errno : 0;
    if (fd >= 0) ::close(fd);
    return error;
  });
}

// Reads each file of `paths`, one a line, and hashes it.
EXPORTED double plain_read_and_hash(const char* paths, int threads) {
  std::vector<std::string> names;
  for (const char* at = paths; *at != '\0';) {
    const char* const end = std::strchr(at, '\n');
    names.emplace_back(at, end);
    at = end + 1;
  }
  return timed(names.size(), threads, [&names](std::size_t item) {
    static thread_local std::vector<std::uint8_t> s_buffer;
    return hash_file(names[item], s_buffer);
  });
}

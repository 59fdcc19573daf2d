// A store in a temporary folder, and memory to put into it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/object_store.hpp"

namespace kerncap::test {

using Bytes = std::vector<std::byte>;

// The last part of a random sequence may be cut: any size will do.
inline Bytes random_bytes(std::size_t size, std::uint64_t seed = 0) {
  Bytes bytes(size);
  std::mt19937_64 chance(seed);
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = chance();
    std::memcpy(&bytes[i], &word, std::min<std::size_t>(8, size - i));
  }
  return bytes;
}

class ScratchStore {
 public:
  ScratchStore() {
    const char* const top = std::getenv("TMPDIR");
    std::string path = std::string(top != nullptr ? top : "/tmp") + "/kerncap-store-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    m_path = path;
    for (const char* folder : {"objects", "tmp", "artifacts", "names", "actions"}) {
      std::filesystem::create_directory(m_path / folder);
    }
    for (const char* lock : {"lock", "gate"}) std::ofstream(m_path / lock).flush();
    std::ofstream(m_path / "format") << "kerncap-store 1\n";
  }
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;
  ~ScratchStore() { std::filesystem::remove_all(m_path); }

  [[nodiscard]] std::shared_ptr<core::ObjectStore> open() const {
    auto store = core::ObjectStore::open(m_path.string());
    if (!store) std::abort();
    return store.value();
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return m_path; }
  [[nodiscard]] std::filesystem::path file(const core::Digest& digest) const {
    return m_path / "objects" / core::ObjectStore::relative_path(digest);
  }

 private:
  std::filesystem::path m_path;
};

}  // namespace kerncap::test

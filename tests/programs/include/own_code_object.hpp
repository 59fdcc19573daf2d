// The GPU's code in a program's own executable: an offload bundle of clang's, plain or compressed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

using Bytes = std::vector<char>;

inline Bytes read_file(const char* path) {
  Bytes bytes;
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) std::exit(2);
  for (char block[65536]; const std::size_t count = std::fread(block, 1, sizeof block, file);) bytes.insert(bytes.end(), block, block + count);
  std::fclose(file);
  return bytes;
}

// Offsets in the file. A compressed bundle does not show its code object.
struct FatBinary {
  long begin = 0, end = 0;
  long object_begin = 0, object_end = 0;
  bool compressed = false;
};

// Ends the program where there is none. Bundles lie at multiples of a page; elsewhere the same letters are this program's own data.
inline FatBinary own_fat_binary(const Bytes& executable) {
  constexpr std::string_view k_plain = "__CLANG_OFFLOAD_BUNDLE__", k_compressed = "CCOB";
  for (std::size_t at = 0; at + 4096 <= executable.size(); at += 4096) {
    const std::string_view here(executable.data() + at, 4096);
    const auto number = [&here](std::size_t offset, std::size_t size_bytes) {
      std::uint64_t value = 0;
      std::memcpy(&value, here.data() + offset, size_bytes);
      return value;
    };
    FatBinary found{.begin = static_cast<long>(at)};
    if (here.starts_with(k_compressed)) {
      found.compressed = true;
      found.end = found.begin + static_cast<long>(number(4, 2) == 2 ? number(8, 4) : number(8, 8));  // version 3: wider
      return found;
    }
    if (!here.starts_with(k_plain)) continue;
    std::size_t next = k_plain.size() + 8;
    for (std::uint64_t entries = number(k_plain.size(), 8); entries != 0; --entries) {
      const std::uint64_t offset = number(next, 8), size = number(next + 8, 8), name_size = number(next + 16, 8);
      const std::string_view name = here.substr(next + 24, name_size);
      next += 24 + name_size;
      if (name.find("amdgcn") == name.npos) continue;
      found.object_begin = found.begin + static_cast<long>(offset);
      found.end = found.object_end = found.object_begin + static_cast<long>(size);
    }
    if (found.end != 0) return found;
  }
  std::fprintf(stderr, "no code object in this program\n");
  std::exit(2);
}

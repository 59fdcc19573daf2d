// image_sweep FILE…: that the checks of images refuse nothing that is whole. A file is looked through for code objects and bundles of
// them, for every target; each is checked as if this were the chip that it is for. Prints how many there were.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "softgpu/device/code_object_check.hpp"
#include "softgpu/device/image_check.hpp"
#include "softgpu/device/metadata_check.hpp"
#include "softgpu/device/symbol_check.hpp"

using namespace kerncap::softgpu;

namespace {

unsigned g_images = 0, g_objects = 0, g_refused = 0;

void judge(const char* file, std::size_t at, const std::string& damage) {
  if (damage.empty()) return;
  ++g_refused;
  std::printf("%s+%zu: %s\n", file, at, damage.c_str());
}

void sweep(const char* path) {
  const int fd = open(path, O_RDONLY);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_size == 0) return;
  const auto size_bytes = static_cast<std::size_t>(status.st_size);
  void* memory = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return;
  const std::string_view all(static_cast<const char*>(memory), size_bytes);
  for (std::size_t at = 0; at < size_bytes; at += 8) {
    const std::string_view rest = all.substr(at);
    const auto* bytes = reinterpret_cast<const std::byte*>(rest.data());
    std::uint64_t entries = 0;  // in a program's data the same letters are a text
    if (rest.starts_with("__CLANG_OFFLOAD_BUNDLE__") && rest.size() >= 32) std::memcpy(&entries, rest.data() + 24, sizeof entries);
    const bool is_bundle = entries != 0 && entries < 4096;
    if (is_bundle || (rest.starts_with("CCOB") && rest.size() > 16 && rest[4] > 0 && rest[4] < 4 && rest[5] == 0)) {
      ++g_images;
      for (const Target target : {Target::gfx90a, Target::gfx942, Target::gfx1100}) judge(path, at, judge_image(ImageBytes({bytes, rest.size()}), target).damage);
    } else if (at % 64 == 0 && is_amdgpu_elf({bytes, rest.size()})) {
      // Whatever it is for. What follows it in the file is none of its own.
      ++g_objects;
      std::string damage = damage_of_code_object({bytes, rest.size()});
      if (damage.empty()) damage = damage_of_symbols_for_hip({bytes, rest.size()});
      if (damage.empty()) damage = damage_of_metadata({bytes, rest.size()});
      judge(path, at, damage);
    }
  }
  munmap(memory, size_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) sweep(argv[i]);
  std::printf("%u bundles, %u code objects, %u refused\n", g_images, g_objects, g_refused);
  return g_images + g_objects > 0 && g_refused == 0 ? 0 : 1;
}

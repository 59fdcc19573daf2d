// Runs a fuzz target without libFuzzer: over frames and lists that are whole, and over many small changes of each.
// The changes are the same in every run.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <zstd.h>

#include "core/chunk_list.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int k_changes = 500;  // of each input

using Input = std::vector<std::uint8_t>;

Input compressed(const Input& payload, int checksum) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
  Input frame(ZSTD_compressBound(payload.size()));
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), payload.data(), payload.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

// The frame that docs/store.md gives for incompressible payloads, by other code than the writer's.
Input raw(const Input& payload) {
  Input frame{0x28, 0xB5, 0x2F, 0xFD, 0xC0, 0x50};
  for (int i = 0; i < 8; ++i) frame.push_back(static_cast<std::uint8_t>(std::uint64_t{payload.size()} >> (8 * i)));
  const auto header = static_cast<std::uint32_t>(payload.size() << 3 | 1);
  for (int i = 0; i < 3; ++i) frame.push_back(static_cast<std::uint8_t>(header >> (8 * i)));
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

std::vector<Input> corpus() {
  std::mt19937 chance(7);
  Input noise(3000);
  for (auto& byte : noise) byte = static_cast<std::uint8_t>(chance());
  Input text;
  for (int i = 0; i < 500; ++i) text.insert(text.end(), {'k', 'e', 'r', 'n', static_cast<std::uint8_t>(i % 7)});
  std::vector<Input> inputs{{}, raw({}), raw(noise), raw(text)};
  for (const Input& payload : {Input{}, noise, text, Input(2'000'000)}) {
    for (int checksum : {0, 1}) inputs.push_back(compressed(payload, checksum));
  }
  kerncap::core::ChunkList list{3 * kerncap::core::k_chunk_bytes - 1, kerncap::core::k_chunk_bytes, {}};
  list.chunks = {kerncap::core::digest_of({}), std::nullopt, kerncap::core::digest_of({})};
  const std::string payload = list.payload();
  inputs.emplace_back(payload.begin(), payload.end());
  return inputs;
}

Input changed(Input input, std::mt19937& chance) {
  for (unsigned changes = 1 + chance() % 4; changes > 0 && !input.empty(); --changes) {
    // Headers are where it matters: half of the changes hit the first 32 bytes.
    const std::size_t at = chance() % (chance() % 2 == 0 ? input.size() : std::min<std::size_t>(32, input.size()));
    switch (chance() % 4) {
      case 0: input[at] ^= static_cast<std::uint8_t>(1u << chance() % 8); break;
      case 1: input[at] = static_cast<std::uint8_t>(chance()); break;
      case 2: input.resize(at); break;
      default: input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), input[chance() % input.size()]); break;
    }
  }
  return input;
}

// Writes the whole inputs for libFuzzer to start from.
int write_corpus(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const Input& input : corpus()) {
    std::ofstream file(folder / ("input-" + std::to_string(number++)), std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return write_corpus(argv[1]);
  std::mt19937 chance(1);
  std::size_t runs = 0;
  for (const Input& input : corpus()) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    for (int i = 0; i < k_changes; ++i) {
      const Input other = changed(input, chance);
      LLVMFuzzerTestOneInput(other.data(), other.size());
      ++runs;
    }
  }
  std::printf("%zu inputs\n", runs);
  return runs > 0 ? 0 : 1;
}

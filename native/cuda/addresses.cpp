#include "cuda/addresses.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/process_maps.hpp"
#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

// The parameters of a pointer's size.
std::vector<std::uint64_t> pointers_of(CUfunction function, const std::vector<std::byte>& parameters) {
  std::vector<std::uint64_t> words;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; driver().cuFuncGetParamInfo(function, i, &offset, &bytes) == CUDA_SUCCESS; ++i) {
    std::uint64_t word = 0;
    if (bytes != sizeof word || offset + bytes > parameters.size()) continue;
    std::memcpy(&word, &parameters[offset], sizeof word);
    words.push_back(word);
  }
  return words;
}

}  // namespace

std::vector<std::uint64_t> words_of(const std::vector<std::byte>& parameters) {
  std::vector<std::uint64_t> words(parameters.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), parameters.data(), words.size() * sizeof(std::uint64_t));
  return words;
}

bool is_known_to_the_driver(std::uint64_t address) noexcept {
  CUmemorytype type{};
  return driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS && type != 0;
}

bool is_given_ordinary_memory(CUfunction function, const std::vector<std::byte>& parameters, std::uint32_t device) {
  if (driver().cuFuncGetParamInfo == nullptr) return false;
  if (device_attribute(static_cast<CUdevice>(device), CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) == 0) return false;
  std::vector<std::uint64_t> words = pointers_of(function, parameters);
  // One behind the last element of captured memory is how many ends are given.
  std::erase_if(words, [](std::uint64_t word) { return word == 0 || is_known_to_the_driver(word) || is_known_to_the_driver(word - 1); });
  if (words.empty()) return false;
  const auto mappings = core::process_mappings();
  if (!mappings) return false;
  return std::any_of(mappings->begin(), mappings->end(), [&words](const core::ProcessMapping& mapping) {
    return mapping.is_readable() && std::any_of(words.begin(), words.end(), [&mapping](std::uint64_t word) {
      return word >= mapping.begin && word < mapping.end;
    });
  });
}

}  // namespace kerncap::cuda

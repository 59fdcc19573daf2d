// A kernel made of machine words, its descriptor and a data buffer, in an address space of their own, for tests and
// benchmarks of the engine. Kernels find the data's address in s[0:1] and data word 4 in s2; work-item ids in v0.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <future>
#include <span>

#include "softgpu/exec/engine.hpp"

namespace kerncap::softgpu::testing {

class Pages {
 public:
  explicit Pages(std::size_t size_bytes)
      : m_size(size_bytes),
        m_begin(static_cast<std::byte*>(mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(m_begin, m_size); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return m_begin; }
  [[nodiscard]] std::uint64_t va() const noexcept { return reinterpret_cast<std::uint64_t>(m_begin); }
  [[nodiscard]] Extent extent(Rights rights) const noexcept { return {va(), va() + m_size, 0, rights}; }

 private:
  std::size_t m_size;
  std::byte* m_begin;
};

// What a descriptor says that tests vary.
struct Resources {
  std::uint32_t vgprs = 64;         // of which all are VGPRs
  std::uint32_t user_sgprs = 3;
  std::uint32_t preload_dwords = 1;
};

class Kernel {
 public:
  static constexpr std::size_t k_data_bytes = 1 << 16;
  // The code's place: after the descriptor, and after the prologue that a preloading kernel skips.
  static constexpr std::size_t k_entry = 256, k_code = k_entry + 256;

  explicit Kernel(std::span<const std::uint32_t> code, Resources resources = {}) : m_image(8192), m_data(k_data_bytes) {
    std::memcpy(m_image.data() + k_code, code.data(), code.size_bytes());
    put<std::uint32_t>(8, k_data_bytes);  // kernarg_size
    put<std::int64_t>(16, resources.preload_dwords != 0 ? k_entry : k_code);
    put<std::uint32_t>(44, resources.vgprs / 4 - 1);                             // accum_offset
    put<std::uint32_t>(48, (resources.vgprs / 8 - 1) | 2U << 6 | 0xF0U << 12);  // registers, float mode
    put<std::uint32_t>(52, resources.user_sgprs << 1);
    put<std::uint16_t>(56, 1 << 3);  // the kernarg pointer
    put<std::uint16_t>(58, static_cast<std::uint16_t>(resources.preload_dwords | 4U << 7));
    space.map(m_image.extent(Rights::all));
    space.map(m_data.extent(Rights::read | Rights::write));
  }

  template <typename T>
  void put(std::size_t offset, T value) noexcept {
    std::memcpy(m_image.data() + offset, &value, sizeof value);
  }
  [[nodiscard]] std::uint32_t* words() const noexcept { return reinterpret_cast<std::uint32_t*>(m_data.data()); }
  [[nodiscard]] std::uint64_t code_va() const noexcept { return m_image.va() + k_code; }

  [[nodiscard]] Dispatch dispatch(std::uint32_t groups, std::uint16_t group_size = 64) const {
    Dispatch dispatch;
    dispatch.space = &space;
    dispatch.owner = this;
    dispatch.descriptor_va = m_image.va();
    dispatch.kernarg_va = m_data.va();
    dispatch.group[0] = group_size;
    dispatch.grid[0] = groups * group_size;
    return dispatch;
  }

  AddressSpace space;

 private:
  Pages m_image, m_data;
};

[[nodiscard]] inline std::future<DispatchOutcome> start(Engine& engine, Dispatch dispatch) {
  auto promise = std::make_shared<std::promise<DispatchOutcome>>();
  std::future<DispatchOutcome> outcome = promise->get_future();
  engine.submit(std::move(dispatch), [promise](const DispatchOutcome& result) { promise->set_value(result); });
  return outcome;
}

}  // namespace kerncap::softgpu::testing

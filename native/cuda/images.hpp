// The PTX that the program's modules were compiled from by the driver. It is copied when it is handed over, as the
// program may free it, and goes to the collector with a capture: where there is no source, it is what can be edited.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/cuda_headers.hpp"
#include "cuda/image.hpp"

namespace kerncap::cuda {

using Bytes = std::vector<std::byte>;

class Images {
 public:
  // `capability`: of the GPU that it is loaded for.
  void module_loaded(CUmodule module, const Image& image, unsigned capability) noexcept;
  void module_unloaded(CUmodule module) noexcept;
  void library_loaded(CUlibrary library, const Image& image, unsigned capability) noexcept;
  void library_unloaded(CUlibrary library) noexcept;
  // What stands for a part of a library: a CUkernel, a CUfunction, a CUmodule.
  void library_part(CUlibrary library, const void* handle) noexcept;
  void function_of(CUkernel kernel, const void* function) noexcept;

  void link_input(CUlinkState link, const Image& image, unsigned capability) noexcept;
  void linked(CUlinkState link, std::span<const std::byte> cubin) noexcept;
  void link_destroyed(CUlinkState link) noexcept;

  // Copies of what a kernel may have been compiled from: PTX and fatbins, by any of the handles that stand for it.
  [[nodiscard]] std::vector<Bytes> of(const void* launched, const void* function, CUmodule module) noexcept;

 private:
  using Kept = std::shared_ptr<Bytes>;
  struct Link {
    std::vector<Kept> inputs;
    Kept cubin;
  };
  [[nodiscard]] Kept keep(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<Kept> made_of(const Image& image, unsigned capability);
  template <typename Handle>
  void loaded(std::map<Handle, std::vector<Kept>>& by_handle, Handle handle, const Image& image, unsigned capability);

  std::mutex m_mutex;
  std::deque<std::weak_ptr<Bytes>> m_all;         // the oldest first: it is given up when there is too much
  std::map<CUmodule, std::vector<Kept>> m_modules;
  std::map<CUlibrary, std::vector<Kept>> m_libraries;
  std::map<const void*, CUlibrary> m_parts;       // of libraries that have something
  std::map<CUlinkState, std::vector<Kept>> m_links;
  std::deque<Link> m_linked;                      // the latest last
};

}  // namespace kerncap::cuda

// Keeps PTX by the handles of what was made of it. A cubin that the driver linked is known again by its bytes: programs
// copy it before they load it.
#include "cuda/images.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace kerncap::cuda {
namespace {

constexpr std::size_t k_most_bytes = 64u << 20;   // in the program's memory, all together
constexpr std::size_t k_most_links = 64;

}  // namespace

// Null where there is no memory for it: an image may be large, and the program goes on without us.
Images::Kept Images::keep(std::span<const std::byte> bytes) {
  Kept kept;
  try {
    kept = std::make_shared<Bytes>(bytes.begin(), bytes.end());
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  std::erase_if(m_all, [](const std::weak_ptr<Bytes>& each) { return each.expired(); });
  m_all.push_back(kept);
  std::size_t total = 0;
  for (const auto& each : m_all) total += each.lock()->size();
  for (; total > k_most_bytes; m_all.pop_front()) {
    const Kept oldest = m_all.front().lock();
    total -= oldest->size();
    Bytes().swap(*oldest);
  }
  return kept;
}

std::vector<Images::Kept> Images::made_of(const Image& image, unsigned capability) {
  if (image.form == Image::Form::cubin) {
    for (auto link = m_linked.rbegin(); link != m_linked.rend(); ++link) {
      const std::size_t bytes = image.bytes.size();
      if (link->cubin->size() >= bytes && std::memcmp(link->cubin->data(), image.bytes.data(), bytes) == 0) return link->inputs;
    }
  }
  if (!is_compiled(image, capability)) return {};
  const Kept kept = keep(image.bytes);
  return kept == nullptr ? std::vector<Kept>{} : std::vector<Kept>{kept};
}

template <typename Handle>
void Images::loaded(std::map<Handle, std::vector<Kept>>& by_handle, Handle handle, const Image& image, unsigned capability) {
  const std::lock_guard lock(m_mutex);
  std::vector<Kept> found = made_of(image, capability);
  if (!found.empty()) by_handle[handle] = std::move(found);
}

void Images::module_loaded(CUmodule module, const Image& image, unsigned capability) noexcept {
  loaded(m_modules, module, image, capability);
}

void Images::module_unloaded(CUmodule module) noexcept {
  const std::lock_guard lock(m_mutex);
  m_modules.erase(module);
}

void Images::library_loaded(CUlibrary library, const Image& image, unsigned capability) noexcept {
  loaded(m_libraries, library, image, capability);
}

void Images::library_unloaded(CUlibrary library) noexcept {
  const std::lock_guard lock(m_mutex);
  if (m_libraries.erase(library) == 0) return;
  std::erase_if(m_parts, [&](const auto& part) { return part.second == library; });
}

void Images::library_part(CUlibrary library, const void* handle) noexcept {
  const std::lock_guard lock(m_mutex);
  if (m_libraries.contains(library)) m_parts[handle] = library;
}

void Images::function_of(CUkernel kernel, const void* function) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = m_parts.find(kernel);
  if (found != m_parts.end()) m_parts[function] = found->second;
}

void Images::link_input(CUlinkState link, const Image& image, unsigned capability) noexcept {
  if (!is_compiled(image, capability)) return;
  const std::lock_guard lock(m_mutex);
  if (const Kept kept = keep(image.bytes); kept != nullptr) m_links[link].push_back(kept);
}

void Images::linked(CUlinkState link, std::span<const std::byte> cubin) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = m_links.find(link);
  const Kept kept = found == m_links.end() ? nullptr : keep(cubin);
  if (kept == nullptr) return;
  m_linked.push_back({found->second, kept});
  if (m_linked.size() > k_most_links) m_linked.pop_front();
}

void Images::link_destroyed(CUlinkState link) noexcept {
  const std::lock_guard lock(m_mutex);
  m_links.erase(link);
}

std::vector<Bytes> Images::of(const void* launched, const void* function, CUmodule module) noexcept {
  const std::lock_guard lock(m_mutex);
  const std::vector<Kept>* kept = nullptr;
  if (const auto found = m_modules.find(module); found != m_modules.end()) kept = &found->second;
  for (const void* handle : {launched, function, static_cast<const void*>(module)}) {
    const auto part = m_parts.find(handle);
    if (kept == nullptr && part != m_parts.end()) kept = &m_libraries[part->second];
  }
  std::vector<Bytes> copies;
  if (kept == nullptr) return copies;
  try {
    for (const Kept& each : *kept) {
      if (!each->empty()) copies.push_back(*each);
    }
  } catch (const std::bad_alloc&) {
    copies.clear();
  }
  return copies;
}

}  // namespace kerncap::cuda

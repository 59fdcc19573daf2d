#include "softgpu/preload/fake_folder.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

namespace kerncap::softgpu {
namespace {

// Few at a time, and only while a topology is read.
constinit std::mutex g_mutex;
std::vector<FakeFolder*>& open_folders() {
  static auto* folders = new std::vector<FakeFolder*>;
  return *folders;
}
std::atomic<unsigned> g_open_count{0};

}  // namespace

FakeFolder::FakeFolder(const std::vector<std::string>& names) : m_names{".", ".."} {
  m_names.insert(m_names.end(), names.begin(), names.end());
}

DIR* FakeFolder::open(const std::vector<std::string>& names) {
  auto* folder = new FakeFolder(names);
  const std::lock_guard lock(g_mutex);
  open_folders().push_back(folder);
  g_open_count.fetch_add(1);
  return reinterpret_cast<DIR*>(folder);
}

FakeFolder* FakeFolder::of(DIR* folder) noexcept {
  if (g_open_count.load() == 0) return nullptr;
  const std::lock_guard lock(g_mutex);
  const auto& all = open_folders();
  const auto found = std::find(all.begin(), all.end(), reinterpret_cast<FakeFolder*>(folder));
  return found == all.end() ? nullptr : *found;
}

bool FakeFolder::close(DIR* folder) noexcept {
  FakeFolder* fake = of(folder);
  if (fake == nullptr) return false;
  const std::lock_guard lock(g_mutex);
  std::erase(open_folders(), fake);
  g_open_count.fetch_sub(1);
  delete fake;
  return true;
}

dirent* FakeFolder::next() noexcept {
  if (m_position == m_names.size()) return nullptr;
  m_entry.d_ino = m_position + 1;
  m_entry.d_reclen = sizeof m_entry;
  m_entry.d_type = DT_UNKNOWN;
  std::snprintf(m_entry.d_name, sizeof m_entry.d_name, "%s", m_names[m_position++].c_str());
  return &m_entry;
}

}  // namespace kerncap::softgpu

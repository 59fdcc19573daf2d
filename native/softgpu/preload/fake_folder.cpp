#include "softgpu/preload/fake_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "softgpu/preload/real.hpp"

namespace kerncap::softgpu {
namespace {

[[nodiscard]] unsigned char type_of(FileTree::Kind kind) noexcept {
  switch (kind) {
    case FileTree::Kind::folder: return DT_DIR;
    case FileTree::Kind::text: return DT_REG;
    case FileTree::Kind::link: return DT_LNK;
    case FileTree::Kind::device: return DT_CHR;
  }
  return DT_UNKNOWN;
}

}  // namespace

DIR* FakeFolder::open(const FileTree& files, const FileTree::Node& folder, DIR* machine, int fd) {
  auto* fake = new FakeFolder(machine, machine != nullptr ? ::dirfd(machine) : fd);
  if (machine != nullptr) {
    KERNCAP_REAL(readdir);
    while (const dirent* entry = real(machine)) {
      const bool is_ours = std::find(folder.names.begin(), folder.names.end(), entry->d_name) != folder.names.end();
      if (!is_ours) fake->add(entry->d_name, entry->d_ino, entry->d_type);
    }
  } else {
    fake->add(".", folder.number, DT_DIR);
    fake->add("..", folder.number, DT_DIR);
  }
  for (const std::string& name : folder.names) {
    const FileTree::Node* node = files.find(folder.path + "/" + name, false).node;
    if (node != nullptr) fake->add(name.c_str(), node->number, type_of(node->kind));
  }
  return reinterpret_cast<DIR*>(fake);
}

FakeFolder* FakeFolder::of(DIR* folder) noexcept {
  if (folder == nullptr) return nullptr;
  std::int64_t mark = 0;
  std::memcpy(&mark, folder, sizeof mark);
  return mark == k_mark ? reinterpret_cast<FakeFolder*>(folder) : nullptr;
}

FakeFolder::~FakeFolder() {
  if (m_machine == nullptr) {
    close(m_fd);
    return;
  }
  KERNCAP_REAL(closedir);
  real(m_machine);
}

void FakeFolder::add(const char* name, std::uint64_t number, unsigned char type) {
  dirent& entry = m_entries.emplace_back();
  entry.d_ino = number;
  entry.d_off = static_cast<off_t>(m_entries.size());
  entry.d_reclen = sizeof entry;
  entry.d_type = type;
  std::snprintf(entry.d_name, sizeof entry.d_name, "%s", name);
}

dirent* FakeFolder::next() noexcept { return m_position < m_entries.size() ? &m_entries[m_position++] : nullptr; }

}  // namespace kerncap::softgpu

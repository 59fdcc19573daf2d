#include "softgpu/device/file_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_most_links = 40;  // as the kernel's

}  // namespace

FileTree::FileTree() { m_nodes[""].number = 1; }

const FileTree::Node* FileTree::at(std::string_view path) const {
  const auto found = m_nodes.find(path);
  return found == m_nodes.end() ? nullptr : &found->second;
}

FileTree::Node& FileTree::add(const std::string& path, Kind kind) {
  if (const auto known = m_nodes.find(path); known != m_nodes.end()) return known->second;
  const auto slash = path.rfind('/');
  Node& parent = add(path.substr(0, slash), Kind::folder);
  parent.names.push_back(path.substr(slash + 1));
  const bool is_whole = parent.is_whole;
  Node& node = m_nodes[path];
  node.kind = kind;
  node.is_whole = is_whole;
  node.number = m_nodes.size();
  node.path = path;
  return node;
}

void FileTree::add_text(const std::string& path, std::string text) { add(path, Kind::text).text = std::move(text); }
void FileTree::add_link(const std::string& path, std::string target) { add(path, Kind::link).text = std::move(target); }
void FileTree::add_whole_folder(const std::string& path) { add(path, Kind::folder).is_whole = true; }

void FileTree::add_device(const std::string& path, DeviceNode device, unsigned major, unsigned minor) {
  Node& node = add(path, Kind::device);
  node.device = device;
  node.major = major;
  node.minor = minor;
}

FileTree::Found FileTree::find(std::string_view path, bool follow) const {
  std::string rest(path), here;
  unsigned links = 0;
  const Node* node = at(here);
  for (;;) {
    const auto begin = rest.find_first_not_of('/');
    if (begin == std::string::npos) break;
    if (node->kind != Kind::folder) return {.error = ENOTDIR};
    const auto end = std::min(rest.find('/', begin), rest.size());
    const std::string name = rest.substr(begin, end - begin);
    rest.erase(0, end);  // "/" remains of a folder's name that ends in one: links are followed then
    if (name == ".") continue;
    if (name == "..") {
      here.resize(here.empty() ? 0 : here.rfind('/'));
      node = at(here);
      continue;
    }
    const std::size_t parent_size = here.size();
    here.append("/").append(name);
    const Node* next = at(here);
    if (next == nullptr) return {.error = node->is_whole ? ENOENT : 0};
    if (next->kind == Kind::link && (follow || !rest.empty())) {
      if (++links > k_most_links) return {.error = ELOOP};
      here.resize(parent_size);
      rest.insert(0, next->text);
      continue;
    }
    node = next;
  }
  return {.node = node};
}

}  // namespace kerncap::softgpu

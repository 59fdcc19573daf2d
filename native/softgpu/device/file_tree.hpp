// Files, folders, links and device nodes that exist for one program only, by their absolute paths. Knows no system call.
//
// Immutable once it is filled: any thread may search it without a lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kerncap::softgpu {

// What a device node leads to.
enum class Device : std::uint8_t { none, kfd, render };
struct DeviceNode {
  Device device = Device::none;
  unsigned gpu_index = 0;
};

class FileTree {
 public:
  enum class Kind : std::uint8_t { folder, text, link, device };
  struct Node {
    Kind kind = Kind::folder;
    bool is_whole = false;     // a folder: what the machine itself has there does not show
    std::uint64_t number = 0;  // as an inode's
    std::string path;          // without links
    std::string text;          // contents of a file, target of a link
    DeviceNode device;
    unsigned major = 0, minor = 0;   // of a device
    std::vector<std::string> names;  // in a folder, in the order in which they were added
  };
  struct Found {
    const Node* node = nullptr;
    int error = 0;         // ENOENT, ENOTDIR or ELOOP: there is nothing, and the machine is not to be asked
    [[nodiscard]] bool is_ours() const noexcept { return node != nullptr || error != 0; }
  };

  FileTree();

  // Folders above are added as they are needed. Each path once.
  void add_text(const std::string& path, std::string text);
  void add_link(const std::string& path, std::string target);
  void add_device(const std::string& path, DeviceNode device, unsigned major, unsigned minor);
  // A folder of which we have everything, with the folders below it.
  void add_whole_folder(const std::string& path);

  // path: absolute. follow: a link at its end, too. Neither node nor error: it is the machine's own.
  [[nodiscard]] Found find(std::string_view path, bool follow) const;

 private:
  Node& add(const std::string& path, Kind kind);
  [[nodiscard]] const Node* at(std::string_view path) const;

  std::map<std::string, Node, std::less<>> m_nodes;  // the root is ""
};

}  // namespace kerncap::softgpu

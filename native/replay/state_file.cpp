#include "replay/state_file.hpp"

#include <cstdio>
#include <filesystem>

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

std::string path_of(const std::string& folder, const Region& region) {
  char name[64];
  std::snprintf(name, sizeof name, "/region_%016lx", region.base);
  return folder + name;
}

}  // namespace

Result<void> make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  if (failed) return Error{ErrorCode::io, "cannot make " + path + ": " + failed.message()};
  return {};
}

StateFile::StateFile(const std::string& folder, const Region& region, bool lists_chunks)
    : m_region(region), m_path(path_of(folder, region)), m_lists_chunks(lists_chunks) {
  // The folder is the user's: what a link there leads to is not written, the link is replaced.
  for (const char* ending : {".bin", ".chunks"}) std::remove((m_path + ending).c_str());
  m_file.open(m_path + ".bin", std::ios::binary);
  if (m_lists_chunks) m_list.open(m_path + ".chunks");
}

void StateFile::put(std::uint64_t offset, std::span<const std::byte> data) {
  m_file.seekp(static_cast<std::streamoff>(offset));
  m_file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

void StateFile::put_chunk(std::size_t chunk, std::span<const std::byte> data) {
  m_list << chunk << '\n';
  put(chunk * m_region.pre->chunk_bytes, data);
}

Result<void> StateFile::close() {
  m_file.close();
  std::error_code failed;
  std::filesystem::resize_file(m_path + ".bin", m_region.bytes, failed);
  if (m_lists_chunks) m_list.close();
  if (m_file && !failed && (!m_lists_chunks || m_list)) return {};
  // What is there in part must not be taken for the whole.
  for (const char* ending : {".bin", ".chunks"}) std::remove((m_path + ending).c_str());
  return Error{ErrorCode::no_space, "cannot write " + m_path + ".bin: is there room?"};
}

}  // namespace kerncap::replay

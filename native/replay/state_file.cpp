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
  std::snprintf(name, sizeof name, "/region_%016lx.bin", region.base);
  return folder + name;
}

Error no_room(const std::string& path) {
  return {ErrorCode::no_space, "cannot write " + path + ": is there room?"};
}

}  // namespace

Result<void> make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  if (failed) return Error{ErrorCode::io, "cannot make " + path + ": " + failed.message()};
  return {};
}

StateFile::StateFile(const std::string& folder, const Region& region) : m_region(region), m_path(path_of(folder, region)) {
  // The folder is the user's: what a link there leads to is not written, the link is replaced.
  std::remove(m_path.c_str());
  m_file.open(m_path, std::ios::binary);
}

void StateFile::put(std::uint64_t offset, std::span<const std::byte> data) {
  m_file.seekp(static_cast<std::streamoff>(offset));
  m_file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

Result<void> StateFile::close() {
  m_file.close();
  std::error_code failed;
  std::filesystem::resize_file(m_path, m_region.bytes, failed);
  if (m_file && !failed) return {};
  // What is there in part must not be taken for the whole.
  std::remove(m_path.c_str());
  return no_room(m_path);
}

ChangedChunks::ChangedChunks(const std::string& folder) : m_path(folder + "/changes") {
  for (const char* ending : {".bin", ".list"}) std::remove((m_path + ending).c_str());
  m_file.open(m_path + ".bin", std::ios::binary);
}

void ChangedChunks::begin(const Region& region) {
  if (!m_list.empty()) m_list += '\n';
  m_list += std::to_string(region.base) + ' ' + std::to_string(region.bytes) + ' ' + std::to_string(m_written);
}

void ChangedChunks::put(std::size_t chunk, std::span<const std::byte> data) {
  m_list += ' ' + std::to_string(chunk);
  m_written += data.size();
  m_file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

Result<void> ChangedChunks::close() {
  m_file.close();
  std::ofstream list(m_path + ".list");
  list << m_list << '\n';
  list.close();
  if (m_file && list) return {};
  std::remove((m_path + ".list").c_str());
  return no_room(m_path + ".bin");
}

}  // namespace kerncap::replay

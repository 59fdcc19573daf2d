// What a run left, in files of a folder.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "core/result.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

core::Result<void> make_folder(const std::string& path);

// All of one region: a file of its length, named by its address.
class StateFile {
 public:
  StateFile(const std::string& folder, const Region& region);

  void put(std::uint64_t offset, std::span<const std::byte> data);
  // Fails, and leaves nothing, where anything could not be written.
  core::Result<void> close();

 private:
  const Region& m_region;
  std::string m_path;
  std::ofstream m_file;
};

// Some chunks of many regions. Most regions have none, so a file for each would take longer than the rest of a dump:
//
//   changes.bin  = the chunks, one behind the other
//   changes.list = region*                         in the order of the chunks; written last
//   region       = base bytes at chunk* NL         what was looked at, and which chunks of the pre-state are in changes.bin,
//                                                 the first of them at that offset
//
// Numbers are decimal, between single blanks.
class ChangedChunks {
 public:
  explicit ChangedChunks(const std::string& folder);

  void begin(const Region& region);
  // Of the region that was begun last, in ascending order.
  void put(std::size_t chunk, std::span<const std::byte> data);
  // Fails, and leaves no list, where anything could not be written.
  core::Result<void> close();

 private:
  std::string m_path;                    // without its ending
  std::ofstream m_file;
  std::string m_list;
  std::uint64_t m_written = 0;
};

}  // namespace kerncap::replay

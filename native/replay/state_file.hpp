// One region as a run left it: a file of its length, named by its address, in which what is not written stays a hole. A
// second file lists the chunks that are written, one number a line, where that is asked for.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "core/result.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

core::Result<void> make_folder(const std::string& path);

class StateFile {
 public:
  StateFile(const std::string& folder, const Region& region, bool lists_chunks);

  void put(std::uint64_t offset, std::span<const std::byte> data);
  // The same, of a chunk of the region's pre-state.
  void put_chunk(std::size_t chunk, std::span<const std::byte> data);
  // Fails, and leaves nothing, where anything could not be written.
  core::Result<void> close();

 private:
  const Region& m_region;
  std::string m_path;                    // without its ending
  std::ofstream m_file;
  std::ofstream m_list;
  bool m_lists_chunks;
};

}  // namespace kerncap::replay

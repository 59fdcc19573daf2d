// Kernels of ours around each run. Before it, they overwrite what an earlier kernel may have left on the multiprocessors: shared
// memory, registers, and as much local memory as the kernel has. What counts on such values then gives another result each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"
#include "replay/scrub_values.hpp"

namespace kerncap::cuda {

extern const char k_scrub_ptx[];
constexpr char k_scrub_kernel[] = "kerncap_scrub";
constexpr char k_scrub_local_kernel[] = "kerncap_scrub_local";
constexpr char k_behind_kernel[] = "kerncap_behind";

class Scrub {
 public:
  // `local_bytes`: of each thread. Comes behind what is in the stream, and is not waited for.
  core::Result<void> run(CUdevice device, std::uint64_t local_bytes, CUstream stream);
  // Begins when all that is in the stream has ended, and does nothing. Only behind run().
  core::Result<void> mark(CUstream stream);
  // Nothing of it stays on the device. Nothing of it runs any more.
  core::Result<void> give_back();

 private:
  struct Local {
    CUfunction kernel;
    unsigned blocks;
  };
  core::Result<void> prepare(CUdevice device);
  core::Result<Local> local(std::uint64_t bytes);
  // False: the device has no room for as much in all threads.
  core::Result<bool> run_local(std::uint64_t bytes, replay::ScrubValues values, CUstream stream);
  core::Result<CUmodule> compile(std::uint64_t local_bytes);

  std::vector<CUmodule> m_modules;
  CUfunction m_kernel = nullptr;
  CUfunction m_behind = nullptr;
  unsigned m_multiprocessors = 0;
  std::uint32_t m_shared_bytes = 0;          // the most that a block may have
  std::map<std::uint64_t, Local> m_locals;   // by how much each clears
  std::uint64_t m_room_bytes = ~std::uint64_t{0};   // of local memory, in all threads, as far as was seen
  replay::ScrubTurns m_turns;
};

}  // namespace kerncap::cuda

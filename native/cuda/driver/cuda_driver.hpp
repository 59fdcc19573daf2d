// The CUDA back end of a replay.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cuda/api.hpp"
#include "cuda/changed.hpp"
#include "cuda/driver/kernel_timer.hpp"
#include "cuda/driver/launch_settings.hpp"
#include "cuda/driver/reservations.hpp"
#include "cuda/driver/scrub.hpp"
#include "replay/driver.hpp"
#include "replay/guard.hpp"

namespace kerncap::cuda {

class CudaDriver final : public replay::Driver, private replay::Watch {
 public:
  // The driver looks at the process's mappings when it starts, and then avoids what pages were held for it: only memory of the
  // process that was pinned is held so.
  CudaDriver() : replay::Driver({.holds_with_pages = false}) {}

  bool read_line(std::string_view what, replay::PlanLine& line, const replay::Plan&) override {
    return m_settings.read_line(what, line);
  }
  void start_early(std::uint32_t device, bool timed) override;
  core::Result<void> open(const replay::Plan& plan) override;
  core::Result<void> place(const replay::Range& range) override;
  [[nodiscard]] InPlace in_place(std::uint64_t address, std::uint64_t bytes) const override;
  core::Result<std::byte*> staging(std::size_t buffer) override;
  core::Result<void> send(std::size_t buffer, const replay::Region& region, std::uint64_t address,
                          std::uint64_t bytes) override;
  core::Result<void> clear(const replay::Region& region, std::uint64_t address, std::uint64_t bytes) override;
  core::Result<void> seal(const std::vector<replay::Range>& ranges) override;
  core::Result<void> guard(bool on) override;
  [[nodiscard]] std::uint64_t guarded_bytes() const override;
  core::Result<void> read(const replay::Region& region, std::uint64_t address, std::span<std::byte> data) override;
  // A cubin has no address that could be asked for.
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte> file, const std::string& symbol,
                                                   std::optional<std::uint64_t>) override;
  core::Result<void> scrub(const replay::Code& code, bool stays_warm) override;
  core::Result<replay::Timing> launch(replay::Code& code, const replay::Launch& launch) override;
  core::Result<std::vector<replay::Timing>> times() override;
  core::Result<void> save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>& parts) override;
  core::Result<void> restore_saved() override;
  [[nodiscard]] replay::Watch* watch() override { return this; }
  core::Result<void> flush_cache() override;
  core::Result<void> give_back() override;

 private:
  core::Result<std::vector<const replay::Region*>> remember(const std::vector<const replay::Region*>& regions) override;
  core::Result<std::vector<std::uint32_t>> changed(std::uint64_t chunk_bytes) override;
  core::Result<std::vector<replay::AddressRange>> written_outside() override;

  struct LoadedCode;
  struct Saved {
    CUdeviceptr address;
    CUdeviceptr copy;
    std::uint64_t bytes;
  };
  struct Remembered {
    const replay::Region* region;
    CUdeviceptr copy;
  };
  struct Staging {
    std::byte* memory = nullptr;
    CUevent done = nullptr;             // recorded behind the last transfer through this buffer
  };

  // What the process and its context were like before the first replay.
  struct Start {
    CUdevice device;
    std::size_t free_bytes;             // of the device
    std::map<CUlimit, std::size_t> limits;
    std::uint64_t own_bytes = 0;        // of the process, after the first replay; 0: there was none yet
  };

  static core::Result<void> start_driver();
  core::Result<void> note_start();
  core::Result<void> free_memory();
  core::Result<void> unmap_memory();
  core::Result<void> forget_runs();
  core::Result<void> look_for_leaks();
  core::Result<void> enter_context();
  core::Result<void> check_devices(const replay::Plan& plan);
  [[nodiscard]] Peaks peaks() const;
  core::Result<void> check_owner(const replay::Plan& plan, const replay::Region& region, int count);
  // Stacks and buffers that the program had made larger than they are by default.
  core::Result<void> raise_limits();
  core::Result<void> reserve(const replay::Plan& plan);
  void allocate_managed(const replay::Plan& plan);
  [[nodiscard]] bool is_managed(const replay::Region& region) const;
  core::Result<void> settle_managed();
  [[nodiscard]] std::vector<std::string> stand_ins() const;
  // Each piece that is guarded has a mapping of its own.
  core::Result<void> map_pieces(std::uint64_t base, std::uint64_t bytes, const replay::Region& region);
  core::Result<void> map(std::uint64_t base, std::uint64_t bytes, const replay::Region& region);
  // New memory, or that of an earlier mapping of the same piece.
  core::Result<CUmemGenericAllocationHandle> physical_memory(std::uint64_t bytes, const replay::Region& region);
  core::Result<void> grant(std::uint64_t base, std::uint64_t bytes, const replay::Region& region,
                           CUmemAccess_flags rights);
  [[nodiscard]] CUmemLocation location_of(const replay::Region& region) const;
  [[nodiscard]] static bool is_on_host(const replay::Region& region);
  core::Result<void> fill_slack(std::uint64_t begin, std::uint64_t end);
  core::Result<void> place_registered(const replay::Range& range);
  core::Result<void> make_staging();
  core::Result<void> settle();
  // What stands in for the address, or null when it is the device's.
  [[nodiscard]] std::byte* shadow_of(std::uint64_t address) const;

  const replay::Plan* m_plan = nullptr;
  LaunchSettings m_settings;
  CUdevice m_device = 0;
  CUcontext m_context = nullptr;
  CUstream m_stream = nullptr;
  CUevent m_before = nullptr;
  CUevent m_after = nullptr;
  std::uint64_t m_granule = 2 << 20;
  int m_host_node = 0;                  // of the host's memory, next to the device
  std::vector<Reservation> m_reservations;
  std::vector<Reservation> m_managed;   // allocated as such
  std::set<std::uint64_t> m_mapped;     // granules that have memory
  std::map<std::uint32_t, CUmemGenericAllocationHandle> m_pieces;
  std::vector<Reservation> m_mappings;  // each made by one call
  std::vector<CUmemGenericAllocationHandle> m_handles;
  std::vector<CUmodule> m_modules;
  bool m_has_peers = false;             // contexts of other devices
  std::optional<Start> m_start;
  std::vector<Slack> m_slack;           // by ascending address
  replay::Guard m_guard;
  struct Guarded {
    Reservation range;
    const replay::Region* region;       // whose rights it has otherwise
  };
  std::vector<Guarded> m_guarded;
  // Where only the kernel's own variables were and no memory could be had: host memory stands in for it, and the
  // engine brings it together with the variables where the module has them now.
  struct Absent {
    Reservation range;
    std::byte* shadow;
  };
  std::vector<Absent> m_absent;
  std::vector<Reservation> m_variables; // of the loaded modules
  std::vector<Reservation> m_pinned;    // ordinary memory of the process that the device reaches too
  std::vector<Staging> m_staging;
  std::vector<Saved> m_saved;
  std::vector<Remembered> m_remembered;
  Changed m_changed;
  Scrub m_scrub;
  bool m_may_launch = false;            // any of the loaded code, on the device
  std::uint64_t m_local_bytes = 0;      // that a thread of any of the loaded kernels may have
  CUdeviceptr m_flush = 0;
  std::uint64_t m_flush_bytes = 0;
  KernelTimer m_timer;
  std::vector<const LoadedCode*> m_launched;  // since the times of kernels were asked for
};

}  // namespace kerncap::cuda

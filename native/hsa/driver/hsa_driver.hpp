// The HSA back end of a replay.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/write_watch.hpp"
#include "hsa/driver/hidden_arguments.hpp"
#include "hsa/driver/hip_launcher.hpp"
#include "hsa/driver/kept_memory.hpp"
#include "hsa/driver/machine.hpp"
#include "hsa/driver/readable_code.hpp"
#include "hsa/driver/runtime.hpp"
#include "hsa/driver/scrub.hpp"
#include "hsa/packets.hpp"
#include "replay/driver.hpp"
#include "replay/guard.hpp"

namespace kerncap::hsa {

struct LoadedCode;

class HsaDriver final : public replay::Driver, private replay::Watch {
 public:
  HsaDriver() : replay::Driver({.switches = {{"--hip-launch", &m_wants_hip}}}) {}
  ~HsaDriver() override {
    if (m_watch_writes != nullptr) (void)m_watch_writes(nullptr);
  }
  HsaDriver(const HsaDriver&) = delete;
  HsaDriver& operator=(const HsaDriver&) = delete;

  bool read_line(std::string_view what, replay::PlanLine& line, const replay::Plan& plan) override {
    return m_hidden.read_line(what, line, plan);
  }
  void start_early(std::uint32_t device, bool timed) override;
  core::Result<void> open(const replay::Plan& plan) override;
  core::Result<void> place(const replay::Range& range) override;
  core::Result<void> seal(const std::vector<replay::Range>& ranges) override;
  core::Result<void> guard(bool on) override;
  [[nodiscard]] std::uint64_t guarded_bytes() const override;
  [[nodiscard]] InPlace in_place(std::uint64_t address, std::uint64_t bytes) const override;
  core::Result<std::byte*> staging(std::size_t buffer) override;
  core::Result<void> send(std::size_t buffer, const replay::Region& region, std::uint64_t address,
                          std::uint64_t bytes) override;
  core::Result<void> clear(const replay::Region& region, std::uint64_t address, std::uint64_t bytes) override;
  core::Result<void> read(const replay::Region& region, std::uint64_t address, std::span<std::byte> data) override;
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte> file, const std::string& symbol,
                                                   std::optional<std::uint64_t> at) override;
  core::Result<void> scrub(const replay::Code& code, bool stays_warm) override;
  void choose_order(std::optional<std::uint64_t> seed) override;
  core::Result<replay::Timing> launch(replay::Code& code, const replay::Launch& captured) override;
  core::Result<void> save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>& parts) override;
  core::Result<void> restore_saved() override;
  core::Result<void> flush_cache() override;
  [[nodiscard]] replay::Watch* watch() override { return m_watches ? this : nullptr; }

 private:
  void note_write(std::uint64_t address, std::uint64_t bytes) override;
  // Of a software GPU only: there the processor compares.
  core::Result<std::vector<const replay::Region*>> remember(const std::vector<const replay::Region*>& regions) override;
  core::Result<std::vector<std::uint32_t>> changed(std::uint64_t chunk_bytes) override;
  // Memory comes in the pages of the regions, and kernels fault elsewhere.
  core::Result<std::vector<replay::AddressRange>> written_outside() override { return std::vector<replay::AddressRange>(); }

  // A part of the write set and its copy.
  struct Saved {
    bool on_host;
    hsa_agent_t agent;                  // whose memory it is
    std::uint64_t address;
    std::uint64_t bytes;
    std::byte* copy;
  };

  [[nodiscard]] const ReplayDevice& device_of(std::uint32_t captured) const;
  [[nodiscard]] std::vector<hsa_agent_t> agents_of(std::uint64_t access) const;
  core::Result<void> place_on_device(const replay::Range& range);
  // Reserved addresses get memory: each piece that is guarded is a mapping of its own.
  core::Result<void> map_pieces(const replay::Range& range);
  core::Result<void> map(const replay::Range& range);
  core::Result<void> grant(const replay::Range& range, hsa_access_permission_t right);
  core::Result<hsa_amd_vmem_alloc_handle_t> physical_memory(const replay::Range& range);
  core::Result<void> place_on_host(const replay::Range& range);
  void note_reached(const replay::Range& range, bool is_zero);
  void note_code(LoadedCode& code);
  core::Result<void> make_queue();
  core::Result<void> load_by_runtime(LoadedCode& code, const std::string& symbol);
  core::Result<void> load_by_hip(LoadedCode& code, const std::string& symbol);
  core::Result<replay::Timing> launch_packet(const LoadedCode& code, const replay::Launch& launch,
                                             std::uint32_t private_bytes);
  void find_write_watch();
  void note_run();
  void submit(const Packet& packet);
  core::Result<void> wait_for_kernel();
  core::Result<void> prepare_grid_barrier(const replay::Launch& launch);
  // A kernel of ours; null: this build has none that the device takes.
  std::unique_ptr<replay::Code> load_own(std::string_view file, const std::string& symbol);
  [[nodiscard]] bool can_scrub();
  core::Result<std::byte*> allocate(const ReplayDevice& owner, std::uint32_t flags, std::uint64_t bytes);
  core::Result<void> copy(bool to_saved);
  core::Result<void> make_staging();
  core::Result<void> settle();          // waits for all transfers
  core::Result<void> settle(std::size_t buffer);
  // `what` has failed where the signal is negative; null: whoever waits looks at that.
  core::Result<void> wait_for(hsa_signal_t done, const char* what);
  // What the device said when it stopped; empty while all is well.
  [[nodiscard]] std::string fault() const;
  void note_fault(const std::string& text);

  Runtime m_runtime;
  Machine m_machine;
  bool m_wants_hip = false;                     // --hip-launch
  HiddenArguments m_hidden;
  std::unique_ptr<HipLauncher> m_hip;           // null: packets of our own
  const replay::Plan* m_plan = nullptr;
  const ReplayDevice* m_device = nullptr;       // runs the kernel
  hsa_queue_t* m_queue = nullptr;
  hsa_signal_t m_done{};                        // of a dispatch, which can reach it
  hsa_signal_t m_behind{};                      // of the packet behind, which does not exist before
  std::byte* m_kernarg = nullptr;
  std::size_t m_kernarg_room = 0;
  std::unique_ptr<replay::Code> m_grid_barrier;  // for cooperative launches, once there was one
  Scrub m_scrub;
  struct Staging {
    std::byte* memory = nullptr;
    hsa_signal_t done{};                        // 0 when the buffer is free
  };
  std::vector<Staging> m_staging;
  // Placed ranges that the processor reaches like memory of its own, by their bases.
  struct Reached {
    std::uint64_t bytes;
    bool is_zero;
  };
  std::map<std::uint64_t, Reached> m_reached;
  std::vector<replay::AddressRange> m_touched;  // of these: what may hold something else than zeros
  ReadableCode m_readable_code;                 // of a software GPU only
  // Whether that may be memory of a device; otherwise transfers go through staging buffers, as with a GPU of silicon.
  bool m_reach_devices = true;
  std::map<std::uint64_t, std::byte*> m_zeros;  // on each device, by its agent
  std::vector<Saved> m_saved;
  core::WorkerPool m_pool;
  KeptMemory m_saved_in_place{m_pool};          // what is saved of memory that the processor reaches
  bool m_watches = false;
  // The software GPU tells what a run writes. Null: it cannot, or it is a GPU of silicon.
  core::WriteWatch::Function m_watch_writes = nullptr;
  const core::WriteWatch m_write_watch{[](void* self, std::uint64_t begin, std::uint64_t end) {
                                         static_cast<HsaDriver*>(self)->note_write(begin, end - begin);
                                       },
                                       this};
  KeptMemory m_remembered{m_pool};
  std::vector<const replay::Region*> m_remembered_regions;
  // Physical memory that several ranges map, by the plan's number for it.
  std::map<std::uint32_t, hsa_amd_vmem_alloc_handle_t> m_pieces;
  replay::Guard m_guard;
  std::vector<replay::Range> m_guarded;
  std::byte* m_flush = nullptr;
  mutable std::mutex m_fault_mutex;
  std::string m_fault;
};

}  // namespace kerncap::hsa

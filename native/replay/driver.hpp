// What a back end does for a replay. One device API each; the engine knows none. Called from one thread.
// Addresses are those of the capture: a driver either puts memory there or says why it cannot.
// docs/decisions/0063-one-replay-contract.md tells what is here, and what a driver keeps to itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "replay/plan.hpp"
#include "replay/watch.hpp"

namespace kerncap::replay {

class PlanLine;

// A run of whole pages that is placed in one go: regions of one kind that touch each other.
struct Range {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  const Region* first = nullptr;         // stands for all of them: kind, device, access, flags; null for code

  // Where the captured code object was: never placed, held until load() takes it.
  [[nodiscard]] bool is_code() const noexcept { return first == nullptr; }
};

// A loaded code object and the kernel in it. Belongs to the driver.
struct Code {
  virtual ~Code() = default;
  // Where a variable of that name is now, if the code object has one of that size.
  [[nodiscard]] virtual std::optional<std::uint64_t> variable(const std::string& name, std::uint64_t bytes) const;
  // Everything of it that its kernels may write, as far as that can be told: a variant's is put back between timed runs.
  [[nodiscard]] virtual std::vector<AddressRange> own_data() const { return {}; }

  std::uint64_t load_address = 0;
  std::uint64_t load_bytes = 0;
};

// One run of a kernel. What does not change from run to run is in the plan.
struct Launch {
  std::uint64_t grid[3];                 // work-items
  std::uint32_t block[3];
  std::uint32_t dynamic_lds_bytes;
  // As captured, with zeros behind where the variant takes more: arguments that the runtime fills are the driver's.
  std::span<const std::byte> kernarg;
  bool is_variant;                       // of the variant's code object

  [[nodiscard]] std::uint64_t blocks(int axis) const { return (grid[axis] + block[axis] - 1) / block[axis]; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks(0) * blocks(1) * blocks(2); }
};

struct Timing {
  std::uint64_t duration_ns = 0;
  bool is_known = true;
};

// How staging memory is best cut for a plan.
struct StagingShape {
  std::size_t count = 0;
  std::size_t bytes = 0;                 // of one buffer
};
[[nodiscard]] StagingShape staging_shape(const Plan& plan);

class Driver {
 public:
  // Known before anything starts.
  struct Traits {
    // Whether inaccessible pages keep captured ranges free until place(). Not where the runtime takes note of the
    // process's mappings when it starts: open() of such a driver reserves memory, but for what the program registered.
    bool holds_with_pages = true;
    // Words of the command line that only this back end knows, and what each turns on.
    std::map<std::string_view, bool*> switches = {};
  };
  // What a device can do at most, as it says itself; 0: it does not say, or what it says is known to be wrong.
  struct Peaks {
    std::uint64_t memory_bytes_per_s = 0;  // of its own memory, behind all caches
    std::uint64_t cache_bytes = 0;         // of the last cache in front of that
    std::uint64_t compute_units = 0;
    std::uint64_t clock_hz = 0;            // of these
  };
  // Known once open() has succeeded.
  struct Opened {
    std::string name;                    // of the device that runs the kernel
    std::string isa;
    std::string runtime;                 // its version
    StagingShape staging;
    std::vector<std::string> stand_ins;  // memory that comes back as another kind, for people: times may differ
    Peaks peaks = {};
    bool is_software = false;            // its times are those of the processor
    std::vector<std::string> without = {};  // for people: what this replay does without. Known when it has run
  };

  explicit Driver(Traits traits) : m_traits(std::move(traits)) {}
  virtual ~Driver() = default;

  [[nodiscard]] bool holds_with_pages(const Range& range) const noexcept;
  // False: the word is none of this back end's.
  bool turn_on(std::string_view word) const noexcept;
  [[nodiscard]] const Traits& traits() const noexcept { return m_traits; }
  [[nodiscard]] const Opened& opened() const noexcept { return m_opened; }
  // Why open() failed: another start of this process, with other random addresses, may fare better.
  [[nodiscard]] bool was_crowded_out() const noexcept { return m_crowded_out; }

  // The plan and the device.

  // A line of the plan that is none of plan.hpp's, in its turn: `plan` is what came before. False: not understood.
  virtual bool read_line(std::string_view, PlanLine&, const Plan&) { return false; }
  // What of open() needs no plan, for a device of that index; a failure shows when it is opened. All replays of this
  // process are timed, or none is.
  virtual void start_early(std::uint32_t, bool /*timed*/) {}
  // Finds the devices. Fails when one cannot run the captured code.
  virtual core::Result<void> open(const Plan& plan) = 0;

  // Memory at captured addresses.

  // The range is free when this is called, or reserved by open().
  virtual core::Result<void> place(const Range& range) = 0;
  // After the restore: waits for all of it; regions that the program could not write become so again.
  virtual core::Result<void> seal(const std::vector<Range>& ranges) = 0;
  // Takes the device's right to write to what the plan's guard covers, or gives it back. Waits for what comes before.
  // A run that writes there fails. Only where the plan wants guarded runs.
  virtual core::Result<void> guard(bool) { return {}; }
  // How much that is.
  [[nodiscard]] virtual std::uint64_t guarded_bytes() const { return 0; }
  // Memory of a placed region that the processor itself may write and read at the speed of its own, from any thread.
  struct InPlace {
    std::byte* memory = nullptr;         // null: it is the device's, reached through send() and clear()
    bool is_zero = false;                // until something is written there
  };
  [[nodiscard]] virtual InPlace in_place(std::uint64_t address, std::uint64_t bytes) const = 0;
  // One of the buffers for what goes to the device, each at least as long as a chunk of the plan. Waits until what
  // was sent from it has arrived. Any thread may fill it then.
  virtual core::Result<std::byte*> staging(std::size_t buffer) = 0;
  // Begins to bring its first bytes to a placed or loaded address of the region's device.
  virtual core::Result<void> send(std::size_t buffer, const Region& region, std::uint64_t address,
                                  std::uint64_t bytes) = 0;
  // Begins to fill with zeros.
  virtual core::Result<void> clear(const Region& region, std::uint64_t address, std::uint64_t bytes) = 0;
  // Small parts of memory, by whichever of these ways. In order with what follows; the data is not needed afterwards.
  core::Result<void> write(const Region& region, std::uint64_t address, std::span<const std::byte> data);
  // Any placed or loaded address of the region's device. Returns when the data is there.
  virtual core::Result<void> read(const Region& region, std::uint64_t address, std::span<std::byte> data) = 0;
  // Keeps copies of parts of memory on the device, to put them back quickly between runs.
  virtual core::Result<void> save(const std::vector<std::pair<const Region*, ByteRange>>& parts) = 0;
  virtual core::Result<void> restore_saved() = 0;
  // Null: this device cannot tell.
  [[nodiscard]] virtual Watch* watch() { return nullptr; }

  // Code and runs.

  // `at`: where it has to be, as in the capture; anything else is an error then. That range is still held.
  virtual core::Result<std::unique_ptr<Code>> load(std::span<const std::byte> file, const std::string& symbol,
                                                   std::optional<std::uint64_t> at) = 0;
  // Overwrites what earlier kernels may have left in registers and in memory of work-groups and work-items, with something else
  // each time. Comes before every run, and is in none of their times. Does nothing where the device itself does so.
  // `stays_warm`: a run has just filled the caches for the next one. A back end may then leave memory that it can only overwrite
  // through them.
  virtual core::Result<void> scrub(const Code&, bool /*stays_warm*/) { return {}; }
  // Drives what the last run left in the device's caches out of them.
  virtual core::Result<void> flush_cache() = 0;
  // In which order the device takes waves in runs from now on: as the seed says, or as it always does. A real one cannot choose.
  virtual void choose_order(std::optional<std::uint64_t>) {}
  // Runs the kernel and waits for it. Or does not wait, and the time is not known yet: what is sent, restored and
  // launched next comes behind it, so that the device never rests in between, and times() tells.
  virtual core::Result<Timing> launch(Code& code, const Launch& launch) = 0;
  // Waits for all launches whose times were not known, and tells them, in order. Fails where one of them did.
  virtual core::Result<std::vector<Timing>> times() { return std::vector<Timing>(); }

  // After a replay that completed, and whose Code is gone: gives back all that it took, so that open() may come again in
  // this process, for any plan, as after start_early(). An error: that was not possible, or something is left, and this
  // process has to end. docs/decisions/0087-a-process-that-is-kept.md
  virtual core::Result<void> give_back() {
    return core::Error{core::ErrorCode::unsupported, "this back end has a process for each replay"};
  }

 protected:
  // write() is about to write there. Restoring does not tell: it ends before memory is remembered or saved.
  virtual void note_write(std::uint64_t /*address*/, std::uint64_t /*bytes*/) {}

  Opened m_opened;
  bool m_crowded_out = false;

 private:
  Traits m_traits;
  std::size_t m_next_staging = 0;        // of write()
};

// The whole command line of a replayer; the back end's main() calls it with its driver.
int replay_main(int argc, char** argv, Driver& driver);

}  // namespace kerncap::replay

// What a back end does for a replay. One device API each; the engine knows none. Called from one thread.
// Addresses are those of the capture: a driver either puts memory there or says why it cannot.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

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
  std::uint64_t load_address = 0;
  std::uint64_t load_bytes = 0;
  std::uint32_t static_lds_bytes = 0;
  std::uint32_t private_bytes = 0;
  std::uint32_t kernarg_bytes = 0;
};

struct Launch {
  std::uint64_t grid[3];                 // work-items
  std::uint32_t block[3];
  std::uint32_t dynamic_lds_bytes;
  std::uint32_t private_bytes;
  std::span<const std::byte> kernarg;    // hidden arguments that depend on the runtime are the driver's to fill
  const std::vector<HiddenSlot>* hidden; // of the code object that is launched
  std::span<const std::uint64_t> arguments;  // where the explicit ones begin in kernarg
  std::uint32_t cluster[3];              // work-groups of a cluster; zeros: none was asked for
  bool cooperative;
};

struct Timing {
  std::uint64_t duration_ns = 0;
  bool is_known = true;
};

struct AddressRange {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  // Whether inaccessible pages keep a captured range free until place(). Not where the runtime takes note of
  // the process's mappings when it starts: such a driver reserves its memory in open().
  [[nodiscard]] virtual bool holds_with_pages(const Range&) const { return true; }

  // Why open() failed: another start of this process, with other random addresses, may fare better.
  [[nodiscard]] virtual bool was_crowded_out() const { return false; }

  // What of open() needs no plan, for a device of that index; a failure shows when it is opened. Only for replays that
  // are not timed.
  virtual void start_early(std::uint32_t) {}
  // Finds the devices. Fails when one cannot run the captured code.
  virtual core::Result<void> open(const Plan& plan) = 0;
  // The range is free when this is called, or reserved by open().
  virtual core::Result<void> place(const Range& range) = 0;

  // Memory of a placed region that the processor itself may write and read at the speed of its own, from any thread.
  struct InPlace {
    std::byte* memory = nullptr;         // null: it is the device's, reached through send() and clear()
    bool is_zero = false;                // until something is written there
  };
  [[nodiscard]] virtual InPlace in_place(std::uint64_t address, std::uint64_t bytes) const = 0;

  // Buffers for what goes to the device, each at least as long as a chunk of the plan. There are some from open() on.
  [[nodiscard]] virtual std::size_t staging_count() const = 0;
  [[nodiscard]] virtual std::size_t staging_bytes() const = 0;
  // Waits until what was sent from it has arrived. Any thread may fill it then.
  virtual core::Result<std::byte*> staging(std::size_t buffer) = 0;
  // Begins to bring its first bytes to a placed or loaded address of the region's device.
  virtual core::Result<void> send(std::size_t buffer, const Region& region, std::uint64_t address,
                                  std::uint64_t bytes) = 0;
  // Begins to fill with zeros.
  virtual core::Result<void> clear(const Region& region, std::uint64_t address, std::uint64_t bytes) = 0;

  // After the restore: waits for all of it; regions that the program could not write become so again.
  virtual core::Result<void> seal(const std::vector<Range>& ranges) = 0;

  // Small parts of memory, by whichever of these ways. In order with what follows; the data is not needed afterwards.
  core::Result<void> write(const Region& region, std::uint64_t address, std::span<const std::byte> data);
  // Any placed or loaded address of the region's device. Returns when the data is there.
  virtual core::Result<void> read(const Region& region, std::uint64_t address, std::span<std::byte> data) = 0;

  // `at`: where it has to be, as in the capture; anything else is an error then. That range is still held.
  virtual core::Result<std::unique_ptr<Code>> load(std::span<const std::byte> file, const std::string& symbol,
                                                   std::optional<std::uint64_t> at) = 0;
  // Where a variable of that name is now, if the code object has one of that size.
  virtual std::optional<std::uint64_t> variable(Code& code, const std::string& name, std::uint64_t bytes) = 0;

  // Runs the kernel and waits for it. Or does not wait, and the time is not known yet: what is sent, restored and
  // launched next comes behind it, so that the device never rests in between, and times() tells.
  virtual core::Result<Timing> launch(Code& code, const Launch& launch) = 0;
  // Waits for all launches whose times were not known, and tells them, in order. Fails where one of them did.
  virtual core::Result<std::vector<Timing>> times() { return std::vector<Timing>(); }

  // Keeps copies of parts of memory on the device, to put them back quickly between runs.
  virtual core::Result<void> save(const std::vector<std::pair<const Region*, ByteRange>>& parts) = 0;
  virtual core::Result<void> restore_saved() = 0;
  // Copies whole regions on the device, so that changed() can tell what a run did to them. Those that it cannot, or
  // has no room for, it leaves out of what it returns: they are read and compared here. Once more: as they are now, in
  // the same copies.
  virtual core::Result<std::vector<const Region*>> remember(const std::vector<const Region*>&) {
    return std::vector<const Region*>();
  }
  // A word for each chunk of the regions that remember() returned, one after the other; not 0: it changed since.
  virtual core::Result<std::vector<std::uint32_t>> changed(std::uint64_t) { return std::vector<std::uint32_t>(); }
  // What runs have written outside of all regions, in memory that is there because it comes in larger pieces than the
  // regions are. Ascending; the first few of very many.
  virtual core::Result<std::vector<AddressRange>> written_outside() { return std::vector<AddressRange>(); }
  // Of what memory was restored as another kind than it was, in words for people: times may differ.
  [[nodiscard]] virtual std::vector<std::string> stand_ins() const { return {}; }
  // Drives what the last run left in the device's caches out of them.
  virtual core::Result<void> flush_cache() = 0;

  // For the report: name and ISA of the device that runs the kernel, and the runtime's version.
  struct About {
    std::string name;
    std::string isa;
    std::string runtime;
  };
  [[nodiscard]] virtual About about() const = 0;

 private:
  std::size_t m_next_staging = 0;        // of write()
};

// How staging memory is best cut for a plan.
struct StagingShape {
  std::size_t count;
  std::size_t bytes;                     // of one buffer
};
[[nodiscard]] StagingShape staging_shape(const Plan& plan);


// The whole command line of a replayer; the back end's main() calls it with its driver.
int replay_main(int argc, char** argv, Driver& driver);

}  // namespace kerncap::replay

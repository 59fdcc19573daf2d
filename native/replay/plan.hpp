// What a replay process is asked to do, read from a file that the stage wrote. Text, one item a line, words
// between single blanks; numbers are decimal or 0x..., digests 64 hexadecimal digits, `-` stands for none:
//
//   plan      = "kcplan 2" NL line*
//   line      = "store" path                         of the folder
//             | "code" role path                      role: baseline | variant
//             | "linked" role path                    the same with the "fixed" variables at their captured addresses: to be
//                                                   loaded instead, where the driver takes it
//             | "symbol" name                         of the kernel, mangled, without .kd
//             | "variant_symbol" name                 the same of the variant, where it is another
//             | "isa" name                            of the captured device
//             | "software" 0|1                        whether that device was a software GPU
//             | "device" captured actual              where a captured device index is to be found here
//             | "kernel_device" captured
//             | "grid" x y z | "block" x y z          work-items
//             | "lds" static dynamic | "private" bytes
//             | "variant_shape" x y z x y z dynamic   grid, block and LDS of the variant, where they are others
//             | "cooperative" 0|1
//             | "kernarg" hex                         the captured segment; empty: "kernarg -"
//             | "argument" offset                     of each explicit argument, in order
//             | "variant_kernarg" bytes               how long the variant's segment is
//             | "loaded" address bytes                where the kernel's code object was
//             | "region" base bytes kind device access flags host align own piece pre post
//             | "written" region offset bytes         a part of a region that the kernel changed
//             | "state" ["guarded"]                   another state to run from, in the same process, behind the captured one;
//                                                   guarded: also in guarded runs
//             | "order" seed                          in which the device takes waves from the last "state", where it lets us
//             | "change" region memory                what a region holds in the last "state"; the others are as captured. Of
//                                                   the kernel's own code object this counts for variables alone
//             | "guard"                               further runs, in which memory may not be written: guard.hpp
//             | "open" address bytes                  what may be written in these, beside what the captured kernel changed
//             | "variable" address bytes pre post name  pre, post: - where it is a part of a region only
//             | "fixed" role name                     a variable that the linked code object has where it was captured
//             | "renamed" name other                  what the variant calls a variable
//             | "function" role address offset bytes name   where a function was; the code object has the address of now
//                                                   in a variable of its own, of that size, at that offset
//             | "memory" name bytes chunk_bytes       followed by its chunks, in order
//             | "chunk" digest|-                      - : all zero
//             | "verified" name                       a memory that was hashed before, and is not now
//             | own                                   a line that only the back end knows: Driver::read_line()
//   region    : device, pre, post may be -; access: mask of captured devices; flags: see below; host: its host
//               address or 0; own: 1 = part of the kernel's own code object; piece: regions of one number above 0 are
//               mappings of the same physical memory
//   path      : the rest of the line, in which \\ stands for a backslash and \n for a line break
//   pre, post : the name of a memory (its digest)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace kerncap::replay {

inline constexpr std::uint32_t k_no_device = 0xFFFFFFFFu;
inline constexpr std::uint32_t k_flag_read_only = 1u << 0;
inline constexpr std::uint32_t k_flag_stays_on_host = 1u << 1;  // managed memory that kernels reach over the bus
inline constexpr std::uint32_t k_flag_read_mostly = 1u << 2;    // managed memory that is copied to whoever reads it

enum class Kind {
  device_coarse, device_fine, device_extended_fine, vmem, async_pool, ipc, host_coarse, host_pinned,
  host_registered, managed, kernarg, code_object,
};

struct Memory {
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::vector<std::string> chunks;              // empty: all zero
  bool is_verified = false;                     // it was hashed before, and is not now
};

struct ByteRange {
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct AddressRange {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

struct Region {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  Kind kind = Kind::device_coarse;
  std::uint32_t device = k_no_device;           // as captured
  std::uint64_t access = 0;
  std::uint32_t flags = 0;
  std::uint64_t host = 0;
  std::uint64_t align = 0;
  bool own_code = false;
  std::uint32_t piece = 0;
  const Memory* pre = nullptr;
  const Memory* post = nullptr;
  std::vector<ByteRange> written;

  [[nodiscard]] std::uint64_t end() const noexcept { return base + bytes; }
  [[nodiscard]] bool on_host() const noexcept {
    return kind == Kind::host_coarse || kind == Kind::host_pinned || kind == Kind::host_registered ||
           kind == Kind::managed || (kind == Kind::kernarg && device == k_no_device);
  }
  // Memory of the host that was given an address of the device's: by hand, by a pool, or by another process.
  [[nodiscard]] bool is_mapped_host() const noexcept {
    return device == k_no_device && (kind == Kind::vmem || kind == Kind::async_pool || kind == Kind::ipc);
  }
  // Threads of the program may have written there while the kernel ran: those cannot be stopped.
  [[nodiscard]] bool is_shared_with_host() const noexcept { return on_host() || is_mapped_host(); }
};

struct Variable {
  std::string name;
  std::uint64_t address = 0;                    // as captured
  std::uint64_t bytes = 0;
  const Memory* pre = nullptr;
  const Memory* post = nullptr;
};

// A function of the captured code object, whose address memory may hold.
struct StoredFunction {
  bool of_variant = false;                      // which code object's variable
  std::uint64_t captured = 0;                   // where it was
  std::string variable;
  std::uint64_t bytes = 0;                      // of the variable
  std::uint64_t offset = 0;                     // in it, of the word that holds where the function is now
};

// Another state to run from: some regions hold something else than in the capture.
struct State {
  struct Change {
    std::size_t region = 0;                     // its index
    const Memory* memory = nullptr;
  };
  std::vector<Change> changes;
  bool guarded = false;
  std::optional<std::uint64_t> order = {};      // of waves, as a seed
};

struct LaunchShape {
  std::uint64_t grid[3] = {1, 1, 1};            // work-items
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t dynamic_lds_bytes = 0;
};

struct Plan {
  std::string store;
  std::string baseline;
  std::string variant;
  std::string linked;                           // the baseline; empty: as it is
  std::string variant_linked;
  std::string symbol;
  std::string variant_symbol;                   // the same unless the plan says otherwise
  std::string isa;
  bool software = false;
  std::map<std::uint32_t, std::uint32_t> devices;
  std::uint32_t kernel_device = 0;
  LaunchShape shape;
  std::optional<LaunchShape> variant_shape;     // where it is another
  std::uint32_t private_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> kernarg;
  std::vector<std::uint64_t> arguments;         // where the explicit ones begin in it
  std::uint64_t variant_kernarg_bytes = 0;
  bool timed = true;                            // set by the command line
  std::uint64_t loaded_address = 0;
  std::uint64_t loaded_bytes = 0;
  std::vector<Region> regions;                  // by ascending address
  std::vector<State> states;
  bool guarded = false;                         // guarded runs are wanted
  std::vector<AddressRange> open;               // in them
  std::vector<Variable> variables;
  std::set<std::string, std::less<>> fixed;          // variables that the linked baseline has where they were
  std::set<std::string, std::less<>> variant_fixed;  // the same of the variant
  std::map<std::string, std::string> renamed;   // variables that the variant calls otherwise
  std::vector<StoredFunction> functions;
  std::map<std::string, Memory> memories;       // the pointers above lead here

  // The captured device's number here.
  [[nodiscard]] std::uint32_t actual_device(std::uint32_t captured) const;
  [[nodiscard]] const Region* region_at(std::uint64_t address) const;
  // Stands for wherever the driver put the kernel's code object.
  [[nodiscard]] Region place_of_code() const;
  // Whether the captured kernel changed it.
  [[nodiscard]] bool is_written(const Variable& variable) const;
};

class Driver;

// The driver reads and keeps what only it knows.
[[nodiscard]] core::Result<Plan> read_plan(const std::string& path, Driver& driver);

}  // namespace kerncap::replay

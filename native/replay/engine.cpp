// Carries out a plan through a driver.
#include "replay/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "replay/address_space.hpp"
#include "replay/kernarg.hpp"
#include "replay/snapshot_reader.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

// Parts of the write set that are closer than this are put back in one copy: a copy has a price of its own.
constexpr std::uint64_t k_join_bytes = 64 * 1024;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Error{ErrorCode::not_found, "cannot read " + path};
  std::vector<std::byte> data(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size()));
  if (!file) return Error{ErrorCode::io, "cannot read " + path};
  return data;
}

std::vector<std::byte> whole(std::shared_ptr<core::ObjectStore> store, const Memory& memory, Result<void>& result) {
  std::vector<std::byte> data(memory.bytes);
  std::vector<ChunkJob> jobs;
  for (std::size_t i = 0; i < memory.chunks.size(); ++i) jobs.push_back({&memory, i, 0});
  result = for_each_chunk(store, jobs, [&](const ChunkJob& job, std::span<const std::byte> chunk) -> Result<void> {
    std::memcpy(&data[job.offset()], chunk.data(), chunk.size());
    return {};
  });
  return data;
}

}  // namespace

Result<Outcome> Engine::run(const std::vector<Range>& ranges) {
  Result<std::shared_ptr<core::ObjectStore>> store = core::ObjectStore::open(m_plan.store);
  if (!store) return store.error();
  m_store = std::move(store.value());
  for (const Range& range : ranges) {
    if (m_driver.holds_with_pages()) {
      if (Result<void> free = let_go(range); !free) return free.error();
    }
    if (Result<void> placed = m_driver.place(range); !placed) return placed.error();
  }
  if (Result<void> restored = restore(); !restored) return restored.error();
  std::vector<std::unique_ptr<Code>> codes;
  for (const std::string& path : {m_plan.baseline, m_plan.variant}) {
    const bool wanted = !path.empty() && (m_options.interleave || m_plan.variant.empty() || path == m_plan.variant);
    if (!wanted) continue;
    const Result<std::vector<std::byte>> file = read_file(path);
    if (!file) return file.error();
    Result<std::unique_ptr<Code>> code = m_driver.load(file.value(), m_plan.symbol);
    if (!code) return code.error();
    codes.push_back(std::move(code.value()));
  }
  const std::uint64_t runs = m_options.warmup + m_options.iterations;
  if (runs * codes.size() > 1) {
    if (Result<void> saved = save_write_set(); !saved) return saved.error();
  }
  bool first = true;
  for (std::uint64_t i = 0; i < runs; ++i) {
    for (std::size_t c = 0; c < codes.size(); ++c) {
      const bool is_variant = !m_plan.variant.empty() && c + 1 == codes.size();
      auto* times = i < m_options.warmup ? nullptr : is_variant ? &m_outcome.variant_ns : &m_outcome.baseline_ns;
      if (Result<void> ran = run_once(*codes[c], times, first); !ran) return ran.error();
      first = false;
    }
  }
  if (m_options.compare) {
    if (Result<void> compared = compare(*codes.back()); !compared) return compared.error();
  }
  if (!m_options.dump_folder.empty()) {
    if (Result<void> dumped = dump(); !dumped) return dumped.error();
  }
  return m_outcome;
}

Result<void> Engine::restore() {
  const std::uint64_t begin = now_ns();
  std::vector<ChunkJob> jobs;
  for (std::size_t r = 0; r < m_plan.regions.size(); ++r) {
    const Memory* memory = m_plan.regions[r].pre;
    if (memory == nullptr) continue;
    for (std::size_t i = 0; i < memory->chunks.size(); ++i) jobs.push_back({memory, i, r});
    m_outcome.restored_bytes += memory->bytes;
  }
  Result<void> done = for_each_chunk(m_store, jobs, [&](const ChunkJob& job, std::span<const std::byte> data) {
    const Region& region = m_plan.regions[job.owner];
    return m_driver.write(region, region.base + job.offset(), data);
  });
  m_outcome.restore_ns = now_ns() - begin;
  return done;
}

// A code object that is loaded again has its variables elsewhere: they get their contents by name.
Result<void> Engine::restore_variables(Code& code) {
  Region own;
  own.device = m_plan.kernel_device;
  own.kind = Kind::code_object;
  for (const Variable& variable : m_plan.variables) {
    const auto address = m_driver.variable(code, variable.name, variable.bytes);
    if (!address || variable.pre == nullptr || *address == variable.address) continue;
    Result<void> read;
    const std::vector<std::byte> data = whole(m_store, *variable.pre, read);
    if (!read) return read;
    if (Result<void> written = m_driver.write(own, *address, data); !written) return written;
  }
  return {};
}

Result<void> Engine::save_write_set() {
  std::vector<std::pair<const Region*, ByteRange>> parts;
  for (const Region& region : m_plan.regions) {
    if (region.pre != nullptr && region.post == nullptr) {
      parts.push_back({&region, {0, region.bytes}});  // nothing is known of what the kernel writes
    }
    const Region* previous = nullptr;
    for (const ByteRange& written : region.written) {
      ByteRange* last = previous == &region ? &parts.back().second : nullptr;
      if (last != nullptr && written.offset <= last->offset + last->bytes + k_join_bytes) {
        last->bytes = std::max(last->bytes, written.offset + written.bytes - last->offset);
      } else {
        parts.push_back({&region, written});
        previous = &region;
      }
    }
  }
  return m_driver.save(parts);
}

Result<void> Engine::run_once(Code& code, std::vector<std::uint64_t>* times, bool first) {
  if (!first) {
    if (Result<void> restored = m_driver.restore_saved(); !restored) return restored;
  }
  if (Result<void> restored = restore_variables(code); !restored) return restored;
  if (m_options.flush_cache) {
    if (Result<void> flushed = m_driver.flush_cache(); !flushed) return flushed;
  }
  Launch launch{};
  std::copy_n(m_options.grid ? m_options.grid->data() : m_plan.grid, 3, launch.grid);
  std::copy_n(m_options.block ? m_options.block->data() : m_plan.block, 3, launch.block);
  launch.dynamic_lds_bytes = m_options.dynamic_lds_bytes.value_or(m_plan.dynamic_lds_bytes);
  launch.private_bytes = m_plan.private_bytes;
  std::copy_n(m_plan.cluster, 3, launch.cluster);
  launch.cooperative = m_plan.cooperative;
  const std::vector<std::byte> kernarg = rebuild_kernarg(m_plan, launch.grid, launch.block, launch.dynamic_lds_bytes);
  launch.kernarg = kernarg;
  const Result<Timing> timing = m_driver.launch(code, launch);
  m_faulted = !timing.ok();
  if (!timing) return timing.error();
  if (times != nullptr) times->push_back(timing.value().duration_ns);
  return {};
}

Result<void> Engine::compare(Code& code) {
  std::vector<ChunkJob> jobs;
  for (std::size_t r = 0; r < m_plan.regions.size(); ++r) {
    const Region& region = m_plan.regions[r];
    // The kernel's own variables are compared by name, where its code object is now.
    if (region.post == nullptr || region.own_code) continue;
    for (std::size_t i = 0; i < region.post->chunks.size(); ++i) jobs.push_back({region.post, i, r});
    m_outcome.compared = true;
    m_outcome.compared_bytes += region.bytes;
  }
  std::vector<std::byte> actual;
  std::vector<Difference> found(m_plan.regions.size(), Difference{});
  Result<void> done = for_each_chunk(m_store, jobs, [&](const ChunkJob& job, std::span<const std::byte> golden) -> Result<void> {
    const Region& region = m_plan.regions[job.owner];
    actual.resize(golden.size());
    if (Result<void> read = m_driver.read(region, region.base + job.offset(), actual); !read) return read;
    if (std::memcmp(actual.data(), golden.data(), golden.size()) == 0) return {};
    Difference& difference = found[job.owner];
    for (std::size_t i = 0; i < golden.size(); ++i) {
      if (actual[i] == golden[i]) continue;
      if (difference.bytes++ == 0) difference.first_offset = job.offset() + i;
    }
    return {};
  });
  if (!done) return done;
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (found[r].bytes == 0) continue;
    found[r].base = m_plan.regions[r].base;
    m_outcome.differences.push_back(found[r]);
  }
  return compare_variables(code);
}

Result<void> Engine::compare_variables(Code& code) {
  Region own;
  own.device = m_plan.kernel_device;
  own.kind = Kind::code_object;
  for (const Variable& variable : m_plan.variables) {
    if (variable.post == nullptr) continue;
    const auto address = m_driver.variable(code, variable.name, variable.bytes);
    if (!address) continue;  // a variant may have done away with it
    Result<void> fetched;
    const std::vector<std::byte> golden = whole(m_store, *variable.post, fetched);
    if (!fetched) return fetched;
    std::vector<std::byte> actual(golden.size());
    if (Result<void> read = m_driver.read(own, *address, actual); !read) return read;
    m_outcome.compared = true;
    m_outcome.compared_bytes += golden.size();
    Difference difference{variable.name, variable.address, 0, 0};
    for (std::size_t i = 0; i < golden.size(); ++i) {
      if (actual[i] != golden[i] && difference.bytes++ == 0) difference.first_offset = i;
    }
    if (difference.bytes != 0) m_outcome.differences.push_back(difference);
  }
  return {};
}

// One file a region, named by its address.
Result<void> Engine::dump() {
  constexpr std::size_t k_piece = 4 << 20;
  std::vector<std::byte> buffer;
  for (const Region& region : m_plan.regions) {
    char name[64];
    std::snprintf(name, sizeof name, "/region_%016lx.bin", region.base);
    std::ofstream file(m_options.dump_folder + name, std::ios::binary);
    for (std::uint64_t at = 0; at < region.bytes; at += buffer.size()) {
      buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(k_piece, region.bytes - at)));
      if (Result<void> read = m_driver.read(region, region.base + at, buffer); !read) return read;
      file.write(reinterpret_cast<const char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    }
    file.close();
    if (!file) return Error{ErrorCode::no_space, "cannot write " + m_options.dump_folder + name};
  }
  return {};
}

}  // namespace kerncap::replay

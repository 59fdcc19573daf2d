// A driver that does nothing: tests override what they are about.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "core/chunk_list.hpp"
#include "replay/driver.hpp"

namespace kerncap::test {

class StubDriver : public replay::Driver {
 public:
  explicit StubDriver(replay::StagingShape staging = {}, Traits traits = {}) : Driver(std::move(traits)) {
    m_opened.staging = staging;
  }

  core::Result<void> open(const replay::Plan&) override { return {}; }
  core::Result<void> place(const replay::Range&) override { return {}; }
  InPlace in_place(std::uint64_t, std::uint64_t) const override { return {}; }
  core::Result<std::byte*> staging(std::size_t) override { return nullptr; }
  core::Result<void> send(std::size_t, const replay::Region&, std::uint64_t, std::uint64_t) override { return {}; }
  core::Result<void> clear(const replay::Region&, std::uint64_t, std::uint64_t) override { return {}; }
  core::Result<void> seal(const std::vector<replay::Range>&) override { return {}; }
  core::Result<void> read(const replay::Region&, std::uint64_t, std::span<std::byte>) override { return {}; }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return std::unique_ptr<replay::Code>();
  }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override { return replay::Timing{}; }
  core::Result<void> save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>&) override { return {}; }
  core::Result<void> restore_saved() override { return {}; }
  core::Result<void> flush_cache() override { return {}; }
};

// One range of addresses that is memory of this process, and code that loads.
class MemoryDriver : public StubDriver {
 public:
  MemoryDriver(std::uint64_t base, std::size_t words)
      : StubDriver({4, core::k_chunk_bytes}), m_memory(words), m_base(base) {}
  InPlace in_place(std::uint64_t address, std::uint64_t) const override {
    return {reinterpret_cast<std::byte*>(const_cast<std::uint32_t*>(m_memory.data())) + (address - m_base), false};
  }
  core::Result<void> read(const replay::Region&, std::uint64_t address, std::span<std::byte> data) override {
    std::memcpy(data.data(), in_place(address, data.size()).memory, data.size());
    return {};
  }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return std::make_unique<replay::Code>();
  }

 protected:
  std::vector<std::uint32_t> m_memory;

 private:
  std::uint64_t m_base;
};

// The same, with copies of what is put back between runs; what was not saved stays as runs leave it.
class SavingDriver : public MemoryDriver {
 public:
  using MemoryDriver::MemoryDriver;
  core::Result<void> save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>& parts) override {
    if (!has_room) return core::Error{core::ErrorCode::device, "no room"};
    for (const auto& [region, part] : parts) saved_bytes += part.bytes;
    m_saved = m_memory;
    return {};
  }
  core::Result<void> restore_saved() override {
    std::memcpy(m_memory.data(), m_saved.data(), saved_bytes);
    return {};
  }

  std::uint64_t saved_bytes = 0;
  bool has_room = true;

 private:
  std::vector<std::uint32_t> m_saved;
};

}  // namespace kerncap::test

// A driver that does nothing: tests override what they are about.
#pragma once

#include "replay/driver.hpp"

namespace kerncap::test {

class StubDriver : public replay::Driver {
 public:
  core::Result<void> open(const replay::Plan&) override { return {}; }
  core::Result<void> place(const replay::Range&) override { return {}; }
  InPlace in_place(std::uint64_t, std::uint64_t) const override { return {}; }
  std::size_t staging_count() const override { return 0; }
  std::size_t staging_bytes() const override { return 0; }
  core::Result<std::byte*> staging(std::size_t) override { return nullptr; }
  core::Result<void> send(std::size_t, const replay::Region&, std::uint64_t, std::uint64_t) override { return {}; }
  core::Result<void> clear(const replay::Region&, std::uint64_t, std::uint64_t) override { return {}; }
  core::Result<void> seal(const std::vector<replay::Range>&) override { return {}; }
  core::Result<void> read(const replay::Region&, std::uint64_t, std::span<std::byte>) override { return {}; }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return std::unique_ptr<replay::Code>();
  }
  std::optional<std::uint64_t> variable(replay::Code&, const std::string&, std::uint64_t) override { return {}; }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override { return replay::Timing{}; }
  core::Result<void> save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>&) override { return {}; }
  core::Result<void> restore_saved() override { return {}; }
  core::Result<void> flush_cache() override { return {}; }
  About about() const override { return {}; }
};

}  // namespace kerncap::test

// Fills placed memory with what it held before the dispatch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/object_store.hpp"
#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/plan.hpp"
#include "replay/progress.hpp"

namespace kerncap::replay {

// Restores every region of the plan that has a pre-state; nothing may have been written to them since they were placed.
// Each chunk is decompressed and verified where it stays, or in the buffer that the device takes it from: never copied in
// between. Returns the bytes that the regions have. The last transfers may still be under way: Driver::seal() waits for them.
// `look`: called on this thread with every chunk that is not zero, before the device has it; may change it.
[[nodiscard]] core::Result<std::uint64_t> restore_regions(
    const Plan& plan, std::shared_ptr<core::ObjectStore> store, Driver& driver, bool verify, Progress& progress,
    const std::function<void(const Region&, std::span<std::byte>)>& look);

}  // namespace kerncap::replay

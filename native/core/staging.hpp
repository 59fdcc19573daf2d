// The folder of one transaction: what it has written, and what of the store it builds on. docs/store.md, "Writing".
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "core/object_store.hpp"
#include "core/result.hpp"
#include "core/unique_fd.hpp"
#include "core/worker_pool.hpp"

namespace kerncap::core {

// Objects appear level by level, each on disk before the next: none is ever seen without those below it.
enum class Level { leaf, list, manifest };

struct StagedObject {
  Digest digest;
  Level level;
};

// One line of the store's list of artifacts: the manifest and the canonical bytes of its entry.
struct ArtifactLine {
  Digest digest;
  std::string entry;
};

class Staging {
 public:
  // Also removes what dead transactions left, if nobody is at work in the store.
  [[nodiscard]] static Result<std::unique_ptr<Staging>> make(const ObjectStore& store);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  // Removes what was not published, except in a forked child: it is the parent's.
  ~Staging();

  // A new file that becomes an object once `keep` names it.
  [[nodiscard]] Result<UniqueFd> create(const std::string& draft) const;
  void drop(const std::string& draft) const noexcept;
  [[nodiscard]] Result<void> keep(const std::string& draft, const Digest& digest) const;

  // Adds objects of the store to the transaction's roots; the caller holds the shared lock.
  [[nodiscard]] Result<void> pin(std::span<const Digest> digests) const;

  // Brings everything to the disk, then makes it appear: objects by level, in the order given, then the list's lines.
  // An error of code `not_found`, before anything appears, unless all of `needed` is there or among the objects.
  [[nodiscard]] Result<void> publish(std::span<const StagedObject> objects, std::span<const ArtifactLine> lines,
                                     std::span<const Digest> needed, WorkerPool& pool) const;

  [[nodiscard]] int folder() const noexcept { return m_folder.get(); }

 private:
  explicit Staging(const ObjectStore& store) : m_store(store) {}
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> sync(std::span<const StagedObject> objects, std::span<const ArtifactLine> lines) const;
  [[nodiscard]] Result<void> still_there(std::span<const StagedObject> objects, std::span<const Digest> needed,
                                         WorkerPool& pool) const;
  [[nodiscard]] Result<void> move_level(std::span<const StagedObject> objects, Level level) const;
  [[nodiscard]] Result<void> move_lines(std::span<const ArtifactLine> lines) const;

  const ObjectStore& m_store;
  std::string m_name;
  UniqueFd m_transactions;  // tmp/
  UniqueFd m_folder;        // tmp/<name>/
  UniqueFd m_live;          // locked while we live
  UniqueFd m_pins;
  int m_process = 0;
};

// Removes what dead transactions left in tmp/; the caller holds the exclusive lock. Returns how many there were.
[[nodiscard]] Result<std::size_t> clear_dead_transactions(const ObjectStore& store);

}  // namespace kerncap::core

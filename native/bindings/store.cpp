// Reading a store from Python. Every call that waits releases the interpreter lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bindings.hpp"
#include "core/chunk_list.hpp"
#include "core/memory_reader.hpp"
#include "core/object_store.hpp"
#include "core/staging.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kerncap::bindings {
namespace {

using core::Digest;
using core::ObjectStore;
using Store = std::shared_ptr<ObjectStore>;

// Held until `release`, or until Python forgets it.
class Lock {
 public:
  explicit Lock(core::SharedLock lock) : m_lock(std::in_place_type<core::SharedLock>, std::move(lock)) {}
  explicit Lock(core::ExclusiveLock lock) : m_lock(std::in_place_type<core::ExclusiveLock>, std::move(lock)) {}
  void release() noexcept { m_lock.emplace<std::monostate>(); }

 private:
  std::variant<std::monostate, core::SharedLock, core::ExclusiveLock> m_lock;
};

nb::bytes read_object(const ObjectStore& store, const std::string& text, std::uint64_t most_bytes, bool verify) {
  const Digest digest = parse(text);
  const auto bytes = without_gil([&] {
    core::ReadBuffers buffers;
    return store.read_whole(digest, most_bytes, verify, buffers);
  });
  return nb::bytes(bytes.data(), bytes.size());
}

std::vector<std::string> absent(const ObjectStore& store, const std::vector<std::string>& texts) {
  std::vector<std::string> missing;
  for (const auto& text : texts) {
    if (!store.has(parse(text))) missing.push_back(text);
  }
  return missing;
}

// (bytes on disk, bytes of payload) of the objects together; absent and malformed ones count nothing.
std::tuple<std::uint64_t, std::uint64_t> total_sizes(const ObjectStore& store, const std::vector<std::string>& texts) {
  std::uint64_t stored = 0;
  std::uint64_t payload = 0;
  for (const auto& text : texts) {
    const auto sizes = store.sizes(parse(text));
    if (!sizes) continue;
    stored += sizes.value().stored_bytes;
    payload += sizes.value().payload_bytes;
  }
  return {stored, payload};
}

std::uint64_t memory_size(const Store& store, const std::string& text) {
  const Digest digest = parse(text);
  return without_gil([&] { return core::MemoryReader(store, 1).list(digest); }).size_bytes;
}

void read_memory(const Store& store, const std::string& text, const nb::object& out, bool verify, std::size_t threads) {
  const Digest digest = parse(text);
  const BorrowedBytes memory(out, PyBUF_WRITABLE);
  without_gil([&]() -> core::Result<void> {
    core::MemoryReader reader(store, threads);
    auto list = reader.list(digest);
    if (!list) return list.error();
    return reader.read(list.value(), memory.writable(), verify);
  });
}

// Faults as (digest, kind, message); kind is "missing" or "damaged", or "unreadable" where the system refused.
std::vector<std::tuple<std::string, std::string, std::string>> check(const Store& store,
                                                                     const std::vector<std::string>& texts,
                                                                     std::size_t threads) {
  const std::vector<Digest> digests = parse(texts);
  std::vector<std::tuple<std::string, std::string, std::string>> faults;
  {
    const nb::gil_scoped_release release;
    core::MemoryReader(store, threads).check(digests, [&](const Digest& digest, const core::Error& error) {
      const bool missing = error.code == core::ErrorCode::not_found;
      const bool damaged = error.code == core::ErrorCode::damaged;
      faults.emplace_back(digest.hex(), missing ? "missing" : damaged ? "damaged" : "unreadable", error.message);
    });
  }
  raise_interrupt();
  return faults;
}

// (size in bytes, chunk size in bytes, digests); a chunk of zeros has none.
std::tuple<std::uint64_t, std::uint64_t, std::vector<std::optional<std::string>>> parse_list(const nb::bytes& payload) {
  const auto list = take(core::ChunkList::parse({payload.c_str(), payload.size()}));
  std::vector<std::optional<std::string>> chunks(list.chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (list.chunks[i]) chunks[i] = list.chunks[i]->hex();
  }
  return {list.size_bytes, list.chunk_bytes, std::move(chunks)};
}

}  // namespace

void bind_store(nb::module_& module) {
  module.attr("CHUNK_SIZE_BYTES") = core::k_chunk_bytes;
  module.def("parse_chunk_list", &parse_list, "payload"_a);

  nb::class_<Lock>(module, "Lock").def("release", &Lock::release);

  nb::class_<ObjectStore>(module, "ObjectStore")
      .def_static("open", [](const std::filesystem::path& path) {
                    return without_gil([&] { return ObjectStore::open(path.native()); });
                  }, "path"_a)
      .def("lock_shared", [](const ObjectStore& store) {
             return Lock(without_gil([&]() -> core::Result<core::SharedLock> {
               auto lock = store.lock().shared();
               if (!lock) return store.about(lock.error());
               return lock;
             }));
           })
      .def("lock_exclusive", [](const ObjectStore& store, double wait_s) {
             const std::chrono::milliseconds wait(static_cast<std::int64_t>(wait_s * 1000));
             return Lock(without_gil([&]() -> core::Result<core::ExclusiveLock> {
               auto lock = store.lock().exclusive(wait);
               if (!lock) return store.about(lock.error());
               return lock;
             }));
           }, "wait_s"_a)
      .def("clear_dead_transactions", [](const ObjectStore& store) {
             return without_gil([&] { return core::clear_dead_transactions(store); });
           })
      .def("has", [](const ObjectStore& store, const std::string& digest) { return store.has(parse(digest)); },
           "digest"_a)
      .def("absent", &absent, "digests"_a)
      .def("total_sizes", &total_sizes, "digests"_a)
      .def("read", &read_object, "digest"_a, "most_bytes"_a, "verify"_a)
      .def("stream", [](const ObjectStore& store, const std::string& text, int fd) {
             const Digest digest = parse(text);
             return without_gil([&] { return store.stream(digest, fd); });
           }, "digest"_a, "fd"_a);
  module.def("memory_size", &memory_size, "store"_a, "digest"_a);
  module.def("read_memory", &read_memory, "store"_a, "digest"_a, "out"_a, "verify"_a, "threads"_a = 0);
  module.def("check_objects", &check, "store"_a, "digests"_a, "threads"_a = 0);
}

}  // namespace kerncap::bindings

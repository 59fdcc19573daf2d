// The store for Python. Every call that reads or writes releases the interpreter lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "core/memory_reader.hpp"
#include "core/object_store.hpp"
#include "core/transaction.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kerncap::bindings {
namespace {

using core::ChunkDigests;
using core::Digest;
using core::ObjectStore;
using core::Transaction;

// Borrows the memory of any C-contiguous buffer, whatever its element type. nb::ndarray would refuse types that it
// does not know, such as bfloat16, and needs numpy for them.
class BorrowedBytes {
 public:
  BorrowedBytes(const nb::handle& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &m_view, flags) != 0) throw nb::python_error();
  }
  BorrowedBytes(const BorrowedBytes&) = delete;
  BorrowedBytes& operator=(const BorrowedBytes&) = delete;
  ~BorrowedBytes() { PyBuffer_Release(&m_view); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return writable(); }
  [[nodiscard]] std::span<std::byte> writable() const noexcept {
    return {static_cast<std::byte*>(m_view.buf), static_cast<std::size_t>(m_view.len)};
  }

 private:
  Py_buffer m_view{};
};

Digest parse(const std::string& text) {
  const auto digest = Digest::from_hex(text);
  if (!digest) raise_error({core::ErrorCode::invalid_argument, "not a digest: " + text});
  return *digest;
}

ChunkDigests parse(const std::vector<std::optional<std::string>>& texts) {
  ChunkDigests digests(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i]) digests[i] = parse(*texts[i]);
  }
  return digests;
}

nb::bytes read_object(const ObjectStore& store, const std::string& text, std::uint64_t most_bytes, bool verify) {
  const Digest digest = parse(text);
  auto payload = [&] {
    const nb::gil_scoped_release release;
    core::ReadBuffers buffers;
    return store.read_whole(digest, most_bytes, verify, buffers);
  }();
  const auto bytes = take(std::move(payload));
  return nb::bytes(bytes.data(), bytes.size());
}

void read_memory(const std::shared_ptr<ObjectStore>& store, const std::vector<std::optional<std::string>>& texts,
                 std::size_t chunk_bytes, const nb::object& out, bool verify, std::size_t threads) {
  const ChunkDigests chunks = parse(texts);
  const BorrowedBytes memory(out, PyBUF_WRITABLE);
  auto status = [&] {
    const nb::gil_scoped_release release;
    return core::MemoryReader(store, threads).read(chunks, chunk_bytes, memory.writable(), verify);
  }();
  take(status);
}

// Faults as (digest, kind, message); kind is "missing" or "damaged", or "unreadable" where the system refused.
std::vector<std::tuple<std::string, std::string, std::string>> check(const std::shared_ptr<ObjectStore>& store,
                                                                     const std::vector<std::string>& texts,
                                                                     std::size_t threads) {
  std::vector<Digest> digests;
  digests.reserve(texts.size());
  for (const auto& text : texts) digests.push_back(parse(text));
  std::vector<std::tuple<std::string, std::string, std::string>> faults;
  const nb::gil_scoped_release release;
  core::MemoryReader(store, threads).check(digests, [&](const Digest& digest, const core::Error& error) {
    const bool missing = error.code == core::ErrorCode::not_found;
    const bool damaged = error.code == core::ErrorCode::damaged;
    faults.emplace_back(digest.hex(), missing ? "missing" : damaged ? "damaged" : "unreadable", error.message);
  });
  return faults;
}

template <typename Call>
auto without_gil(Call call) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return call();
  }();
  return take(std::move(result));
}

class Writer {
 public:
  Writer(std::shared_ptr<Transaction> transaction, std::uint64_t size_bytes)
      : m_transaction(std::move(transaction)), m_writer(*m_transaction, size_bytes) {}

  core::MemoryWriter& writer() noexcept { return m_writer; }

 private:
  std::shared_ptr<Transaction> m_transaction;
  core::MemoryWriter m_writer;
};

std::string put_memory(Transaction& transaction, const nb::object& object) {
  const BorrowedBytes memory(object, PyBUF_SIMPLE);
  const auto bytes = memory.bytes();
  return without_gil([&]() -> core::Result<Digest> {
           core::MemoryWriter writer(transaction, bytes.size());
           if (auto status = writer.append(bytes); !status) return status.error();
           return writer.finish();
         })
      .hex();
}

nb::dict counts(const Transaction& transaction) {
  const core::WriteCounts counted = transaction.counts();
  nb::dict result;
  result["zero_bytes"] = counted.zero_bytes;
  result["known_bytes"] = counted.known_bytes;
  result["new_bytes"] = counted.new_bytes;
  result["stored_bytes"] = counted.stored_bytes;
  return result;
}

}  // namespace

void raise_error(const core::Error& error) {
  const char* name = "StoreError";
  switch (error.code) {
    case core::ErrorCode::invalid_argument: name = "UsageError"; break;
    case core::ErrorCode::not_found: name = "ArtifactNotFound"; break;
    case core::ErrorCode::damaged: name = "DigestMismatch"; break;
    case core::ErrorCode::unsupported: name = "Refused"; break;
    case core::ErrorCode::device: name = "DeviceError"; break;
    default: break;
  }
  const char* hint = nullptr;
  if (error.code == core::ErrorCode::no_space) hint = "free space on the store's disk and run again: nothing was lost";
  if (error.code == core::ErrorCode::permission) hint = "use a store that is yours to write: --store DIR";
  if (error.code == core::ErrorCode::damaged || error.code == core::ErrorCode::not_found) {
    hint = "`kc-store check` names every artifact that is affected; make those again";
  }
  const nb::object type = nb::module_::import_("kerncap_stages.errors").attr(name);
  nb::object value = type(nb::str(error.message.c_str(), error.message.size()));
  if (hint != nullptr) value.attr("hint") = nb::str(hint);
  PyErr_SetObject(type.ptr(), value.ptr());
  throw nb::python_error();
}

void bind_store(nb::module_& module) {
  module.attr("CHUNK_SIZE_BYTES") = core::k_chunk_bytes;

  nb::class_<ObjectStore>(module, "ObjectStore")
      .def_static("open", [](const std::string& path) { return without_gil([&] { return ObjectStore::open(path); }); },
                  "path"_a)
      .def("has", [](const ObjectStore& store, const std::string& digest) { return store.has(parse(digest)); },
           "digest"_a)
      .def("payload_bytes", [](const ObjectStore& store, const std::string& digest) {
             return take(store.payload_bytes(parse(digest)));
           }, "digest"_a)
      .def("read", &read_object, "digest"_a, "most_bytes"_a, "verify"_a)
      .def("stream", [](const ObjectStore& store, const std::string& digest, int fd) {
             return without_gil([&] { return store.stream(parse(digest), fd); });
           }, "digest"_a, "fd"_a);
  module.def("read_memory", &read_memory, "store"_a, "chunks"_a, "chunk_bytes"_a, "out"_a, "verify"_a,
             "threads"_a = 0);
  module.def("check_objects", &check, "store"_a, "digests"_a, "threads"_a = 0);

  nb::class_<Transaction>(module, "Transaction")
      .def_static("begin", [](std::shared_ptr<ObjectStore> store, std::size_t threads) {
             return std::shared_ptr<Transaction>(
                 without_gil([&] { return Transaction::begin(std::move(store), threads); }));
           }, "store"_a, "threads"_a = 0)
      .def("put", [](Transaction& transaction, const nb::object& payload) {
             const BorrowedBytes borrowed(payload, PyBUF_SIMPLE);
             return without_gil([&] { return transaction.put(borrowed.bytes()); }).hex();
           }, "payload"_a)
      .def("put_file", [](Transaction& transaction, const std::string& path) {
             return without_gil([&] { return transaction.put_file(path); }).hex();
           }, "path"_a)
      .def("adopt", [](Transaction& transaction, int fd, std::uint64_t offset, std::uint64_t size_bytes,
                       const std::string& digest) {
             auto status = [&] {
               const nb::gil_scoped_release release;
               return transaction.adopt(fd, offset, size_bytes, parse(digest));
             }();
             take(status);
           }, "fd"_a, "offset"_a, "size_bytes"_a, "digest"_a)
      .def("put_memory", &put_memory, "memory"_a)
      .def("publish", [](Transaction& transaction) {
             auto status = [&] {
               const nb::gil_scoped_release release;
               return transaction.publish();
             }();
             take(status);
           })
      .def("counts", &counts);

  nb::class_<Writer>(module, "MemoryWriter")
      .def(nb::init<std::shared_ptr<Transaction>, std::uint64_t>(), "transaction"_a, "size_bytes"_a)
      .def("append", [](Writer& writer, const nb::object& piece) {
             const BorrowedBytes borrowed(piece, PyBUF_SIMPLE);
             auto status = [&] {
               const nb::gil_scoped_release release;
               return writer.writer().append(borrowed.bytes());
             }();
             take(status);
           }, "piece"_a)
      .def("append_zeros", [](Writer& writer, std::uint64_t bytes) { take(writer.writer().append_zeros(bytes)); },
           "size_bytes"_a)
      .def("append_same", [](Writer& writer, std::uint64_t bytes, const std::vector<std::optional<std::string>>& other) {
             take(writer.writer().append_same(bytes, parse(other)));
           }, "size_bytes"_a, "chunks"_a)
      .def("finish", [](Writer& writer) {
             return without_gil([&] { return writer.writer().finish(); }).hex();
           });
}

}  // namespace kerncap::bindings

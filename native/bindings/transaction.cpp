// Writing to a store from Python. Every call that waits releases the interpreter lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "core/memory_writer.hpp"
#include "core/transaction.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kerncap::bindings {
namespace {

using core::Digest;
using core::Transaction;

// Keeps the transaction that it writes to.
class Writer {
 public:
  Writer(std::shared_ptr<Transaction> transaction, std::uint64_t size_bytes)
      : m_transaction(std::move(transaction)), m_writer(*m_transaction, size_bytes) {}

  core::MemoryWriter& writer() noexcept { return m_writer; }
  const std::shared_ptr<Transaction>& transaction() const noexcept { return m_transaction; }

 private:
  std::shared_ptr<Transaction> m_transaction;
  core::MemoryWriter m_writer;
};

// A piece that other threads are staging. Keeps the buffer until it is staged; Python keeps the writer.
class StartedPiece {
 public:
  StartedPiece(Writer& writer, const nb::object& piece)
      : m_transaction(writer.transaction()), m_bytes(std::in_place, piece, PyBUF_SIMPLE) {
    m_chunks = without_gil([&] { return writer.writer().start(m_bytes->bytes()); });
    if (m_chunks == nullptr) m_bytes.reset();
  }
  StartedPiece(const StartedPiece&) = delete;
  StartedPiece& operator=(const StartedPiece&) = delete;
  ~StartedPiece() {
    if (m_chunks != nullptr) (void)wait();
  }

  void finish() {
    if (m_chunks == nullptr) return;
    const core::Result<void> staged = wait();
    raise_interrupt();
    take(staged);
  }

 private:
  core::Result<void> wait() {
    const auto chunks = std::move(m_chunks);
    const core::Result<void> staged = [&] {
      const nb::gil_scoped_release release;
      return m_transaction->finish_chunks(*chunks);
    }();
    m_bytes.reset();
    return staged;
  }

  std::shared_ptr<Transaction> m_transaction;
  std::optional<BorrowedBytes> m_bytes;
  std::shared_ptr<Transaction::Chunks> m_chunks;
};

std::shared_ptr<Transaction> begin(std::shared_ptr<core::ObjectStore> store, std::size_t threads) {
  return without_gil([&] { return Transaction::begin(std::move(store), threads); });
}

std::string put(Transaction& transaction, const nb::object& payload) {
  const BorrowedBytes borrowed(payload, PyBUF_SIMPLE);
  return without_gil([&] { return transaction.put(borrowed.bytes()); }).hex();
}

std::string put_memory(Transaction& transaction, const nb::object& memory) {
  const BorrowedBytes borrowed(memory, PyBUF_SIMPLE);
  const auto bytes = borrowed.bytes();
  const auto put_all = [&]() -> core::Result<Digest> {
    core::MemoryWriter writer(transaction, bytes.size());
    if (auto status = writer.append(bytes); !status) return status.error();
    return writer.finish();
  };
  return without_gil(put_all).hex();
}

void adopt(Transaction& transaction, int fd, const std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>>& frames) {
  std::vector<core::ForeignFrame> foreign;
  foreign.reserve(frames.size());
  for (const auto& [offset, bytes, digest] : frames) foreign.push_back({offset, bytes, parse(digest)});
  without_gil([&] { return transaction.adopt(fd, foreign); });
}

std::vector<std::string> require(Transaction& transaction, const std::vector<std::string>& texts) {
  const std::vector<Digest> digests = parse(texts);
  std::vector<std::string> missing;
  for (const Digest& digest : without_gil([&] { return transaction.require(digests); })) missing.push_back(digest.hex());
  return missing;
}

nb::bytes read(Transaction& transaction, const std::string& text, std::uint64_t most_bytes) {
  const Digest digest = parse(text);
  const auto bytes = without_gil([&] { return transaction.read(digest, most_bytes); });
  return nb::bytes(bytes.data(), bytes.size());
}

void publish(Transaction& transaction, const std::vector<std::pair<std::string, nb::bytes>>& entries,
             const std::vector<std::string>& needed) {
  std::vector<core::ArtifactLine> lines;
  for (const auto& [digest, entry] : entries) lines.push_back({parse(digest), {entry.c_str(), entry.size()}});
  const std::vector<Digest> digests = parse(needed);
  without_gil([&] { return transaction.publish(lines, digests); });
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

void bind_transaction(nb::module_& module) {
  nb::class_<Transaction>(module, "Transaction")
      .def_static("begin", &begin, "store"_a, "threads"_a = 0)
      .def("put", &put, "payload"_a)
      .def("put_file", [](Transaction& transaction, const std::filesystem::path& path) {
             return without_gil([&] { return transaction.put_file(path.native()); }).hex();
           }, "path"_a)
      .def("adopt", &adopt, "fd"_a, "frames"_a)
      .def("put_memory", &put_memory, "memory"_a)
      .def("require", &require, "digests"_a)
      .def("read", &read, "digest"_a, "most_bytes"_a)
      .def("publish", &publish, "entries"_a, "needed"_a)
      .def("discard", &Transaction::discard, nb::call_guard<nb::gil_scoped_release>())
      .def("counts", &counts);

  nb::class_<StartedPiece>(module, "StartedPiece").def("finish", &StartedPiece::finish);

  nb::class_<Writer>(module, "MemoryWriter")
      .def(nb::init<std::shared_ptr<Transaction>, std::uint64_t>(), "transaction"_a, "size_bytes"_a)
      .def("append", [](Writer& writer, const nb::object& piece) {
             const BorrowedBytes borrowed(piece, PyBUF_SIMPLE);
             without_gil([&] { return writer.writer().append(borrowed.bytes()); });
           }, "piece"_a)
      .def("start", [](Writer& writer, const nb::object& piece) {
             return std::make_unique<StartedPiece>(writer, piece);
           }, "piece"_a, nb::keep_alive<0, 1>())
      .def("append_zeros", [](Writer& writer, std::uint64_t bytes) {
             without_gil([&] { return writer.writer().append_zeros(bytes); });
           }, "size_bytes"_a)
      .def("append_same", [](Writer& writer, std::uint64_t bytes, const std::vector<std::optional<std::string>>& texts) {
             core::ChunkDigests chunks(texts.size());
             for (std::size_t i = 0; i < texts.size(); ++i) {
               if (texts[i]) chunks[i] = parse(*texts[i]);
             }
             take(writer.writer().append_same(bytes, chunks));
           }, "size_bytes"_a, "chunks"_a)
      .def("finish", [](Writer& writer) {
             return without_gil([&] { return writer.writer().finish(); }).hex();
           });
}

}  // namespace kerncap::bindings

// A chunk list has one spelling, so its reader is a matcher of fixed text, numbers and digests: no JSON library.
#include "core/chunk_list.hpp"

#include <charconv>

namespace kerncap::core {
namespace {

constexpr std::string_view k_opening = "{\"chunk_size_bytes\":";
constexpr std::string_view k_chunks = ",\"chunks\":[";
constexpr std::string_view k_middle = "],\"kind\":\"memory\",\"schema_version\":1,\"size_bytes\":";
constexpr std::string_view k_closing = "}\n";
constexpr std::size_t k_hex_digits = 64;
constexpr std::uint64_t k_most_chunk_bytes = std::uint64_t{1} << 30;  // a chunk is decompressed at once

// Takes text from the front, piece by piece.
class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : m_rest(text) {}

  [[nodiscard]] bool empty() const noexcept { return m_rest.empty(); }

  bool take(std::string_view expected) noexcept {
    if (!m_rest.starts_with(expected)) return false;
    m_rest.remove_prefix(expected.size());
    return true;
  }

  bool take_number(std::uint64_t& number) noexcept {
    const char* const end = m_rest.data() + m_rest.size();
    const bool zero = m_rest.starts_with('0');
    const auto [stop, error] = std::from_chars(m_rest.data(), end, number);
    if (error != std::errc() || (zero && stop != m_rest.data() + 1)) return false;
    m_rest.remove_prefix(static_cast<std::size_t>(stop - m_rest.data()));
    return true;
  }

  bool take_chunk(std::optional<Digest>& chunk) noexcept {
    if (take("null")) return true;
    if (!take("\"")) return false;
    chunk = Digest::from_hex(m_rest.substr(0, k_hex_digits));
    if (!chunk) return false;
    m_rest.remove_prefix(k_hex_digits);
    return take("\"");
  }

 private:
  std::string_view m_rest;
};

Error malformed(const char* what) { return {ErrorCode::malformed, std::string("not a chunk list: ") + what}; }

}  // namespace

std::string ChunkList::payload() const {
  std::string text(k_opening);
  text.reserve(chunks.size() * (k_hex_digits + 3) + 128);
  text += std::to_string(chunk_bytes);
  text += k_chunks;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (i > 0) text += ',';
    if (!chunks[i]) {
      text += "null";
      continue;
    }
    text += '"';
    text += chunks[i]->hex();
    text += '"';
  }
  text += k_middle;
  text += std::to_string(size_bytes);
  text += k_closing;
  return text;
}

Result<ChunkList> ChunkList::parse(std::string_view payload) {
  ChunkList list;
  Scanner scanner(payload);
  if (!scanner.take(k_opening) || !scanner.take_number(list.chunk_bytes) || !scanner.take(k_chunks)) {
    return malformed("it does not begin like one");
  }
  while (!scanner.take(k_middle)) {
    if (list.chunks.size() == k_most_chunks) return malformed("it has more than 4,000,000 chunks");
    if (!list.chunks.empty() && !scanner.take(",")) return malformed("of another version, or not canonical");
    if (!scanner.take_chunk(list.chunks.emplace_back())) return malformed("a chunk is neither a digest nor null");
  }
  if (!scanner.take_number(list.size_bytes) || !scanner.take(k_closing) || !scanner.empty()) {
    return malformed("it does not end like one");
  }
  if (list.chunk_bytes == 0 || list.chunk_bytes > k_most_chunk_bytes) return malformed("its chunks are of no use");
  const std::uint64_t expected = list.size_bytes / list.chunk_bytes + (list.size_bytes % list.chunk_bytes != 0);
  if (list.chunks.size() != expected) return malformed("the number of its chunks does not fit its size");
  return list;
}

}  // namespace kerncap::core

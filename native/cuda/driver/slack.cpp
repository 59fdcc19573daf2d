// Memory comes in granules of 2 MiB, and a kernel that writes past the end of an allocation faults only at the next one:
// what no region has of a granule holds a pattern, and what is not the pattern any more was written.
#include <algorithm>

#include "cuda/driver/cuda_driver.hpp"

namespace kerncap::cuda {
namespace {

using core::Result;
using replay::AddressRange;

// As a number of any type nothing that a kernel is likely to write, and so large that what is made of it shows that it
// was read: 3.4e38 as fp32 and bf16, 1.4e306 as fp64, NaN as fp16, 2.1e9 as an integer. Sums swallow a small one.
constexpr std::byte k_pattern{0x7F};
constexpr std::size_t k_most_ranges = 64;
// Closer writes are told as one: those of an array of structures, or of every second element.
constexpr std::uint64_t k_join_bytes = 64;

void add_written(std::vector<AddressRange>& found, std::uint64_t base, std::span<const std::byte> data) {
  for (auto at = data.begin(); at != data.end();) {
    at = std::find_if(at, data.end(), [](std::byte byte) { return byte != k_pattern; });
    if (at == data.end()) return;
    const auto stop = std::find(at, data.end(), k_pattern);
    const std::uint64_t begin = base + static_cast<std::uint64_t>(at - data.begin());
    const std::uint64_t end = base + static_cast<std::uint64_t>(stop - data.begin());
    if (!found.empty() && found.back().base >= base && begin - (found.back().base + found.back().bytes) < k_join_bytes) {
      found.back().bytes = end - found.back().base;
    } else if (found.size() == k_most_ranges) {
      return;
    } else {
      found.push_back({begin, end - begin});
    }
    at = stop;
  }
}

}  // namespace

// Before anything is restored there: regions that lie between two gaps are filled as well.
Result<void> CudaDriver::fill_slack(std::uint64_t begin, std::uint64_t end) {
  for (const Slack& slack : m_slack) {
    if (slack.base() < begin || slack.base() >= end) continue;
    const CUresult status =
        driver().cuMemsetD8Async(slack.base(), static_cast<unsigned char>(k_pattern), slack.bytes(), m_stream);
    if (status != CUDA_SUCCESS) return checked("filling what lies around the captured memory", status);
  }
  return {};
}

Result<std::vector<AddressRange>> CudaDriver::written_outside() {
  std::vector<AddressRange> found;
  std::vector<std::byte> data;
  for (const Slack& slack : m_slack) {
    if (!m_mapped.contains(slack.base() / m_granule * m_granule)) continue;
    data.resize(slack.bytes());
    if (Result<void> read = this->read({}, slack.base(), data); !read) return read.error();
    for (const Reservation& gap : slack.gaps) {
      add_written(found, gap.base, std::span(data).subspan(gap.base - slack.base(), gap.bytes));
    }
  }
  return found;
}

}  // namespace kerncap::cuda

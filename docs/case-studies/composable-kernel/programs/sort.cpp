// Sorts keys with hipCUB's DeviceRadixSort, whose kernels are in rocPRIM's headers.
#include <algorithm>
#include <cstdint>

#include "check.hpp"
#include "hipcub/device/device_radix_sort.hpp"

using Key = std::uint32_t;

int main() {
    constexpr int count = 1 << 14;
    std::mt19937 random(7);
    std::vector<Key> keys(count);
    for (Key& key : keys)
        key = static_cast<Key>(random());
    const DeviceArray<Key> on_device_in(keys), on_device_out(count);

    std::size_t bytes = 0; // the first call says how much memory the sort needs
    require(hipcub::DeviceRadixSort::SortKeys(nullptr, bytes, on_device_in.data(), on_device_out.data(), count));
    const DeviceArray<char> memory(bytes);
    require(hipcub::DeviceRadixSort::SortKeys(memory.data(), bytes, on_device_in.data(), on_device_out.data(), count));
    require(hipDeviceSynchronize());

    std::sort(keys.begin(), keys.end());
    const bool sorted = on_device_out.read() == keys;
    std::printf("%d keys, %s\n", count, sorted ? "sorted" : "not sorted");
    return sorted ? 0 : 1;
}

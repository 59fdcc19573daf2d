// What the programs share: memory on the device, values from a fixed seed, and the comparison of results.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <hip/hip_runtime.h>

inline void require(hipError_t error) {
    if (error != hipSuccess) {
        std::fprintf(stderr, "%s\n", hipGetErrorString(error));
        std::exit(2);
    }
}

// Elements in device memory. Freed when the program ends.
template <typename T>
class DeviceArray {
public:
    explicit DeviceArray(std::size_t count) : m_count(count) { require(hipMalloc(&m_data, bytes())); }

    explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
        require(hipMemcpy(m_data, values.data(), bytes(), hipMemcpyHostToDevice));
    }

    T* data() const { return m_data; }

    std::vector<T> read() const {
        std::vector<T> values(m_count);
        require(hipMemcpy(values.data(), m_data, bytes(), hipMemcpyDeviceToHost));
        return values;
    }

private:
    std::size_t bytes() const { return m_count * sizeof(T); }

    std::size_t m_count;
    T* m_data = nullptr;
};

// Values from -1 to 1, the same in each run.
template <typename T>
std::vector<T> draw(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> between(-1, 1);
    std::vector<T> values(count);
    for (T& value : values)
        value = static_cast<T>(between(random));
    return values;
}

// Prints the largest difference, and returns the program's exit code.
template <typename T>
int compare(const std::vector<T>& found, const std::vector<float>& expected, float bound) {
    float largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const float difference = std::fabs(static_cast<float>(found[i]) - expected[i]);
        if (!(difference <= largest)) // also if it is not a number
            largest = difference;
    }
    std::printf("%zu results, largest difference %g\n", expected.size(), largest);
    return largest <= bound ? 0 : 1;
}

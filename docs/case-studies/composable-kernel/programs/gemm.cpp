// C = A B with Composable Kernel's DeviceGemm_Xdl_CShuffle: half precision, accumulated in single precision.
#include <cstdio>

#include "check.hpp"
#include "ck/tensor_operation/gpu/device/impl/device_gemm_xdl_cshuffle.hpp"
#include "ck/tensor_operation/gpu/device/tensor_layout.hpp"
#include "ck/tensor_operation/gpu/element/element_wise_operation.hpp"

using Half = ck::half_t;
using Rows = ck::tensor_layout::gemm::RowMajor;
using Columns = ck::tensor_layout::gemm::ColumnMajor;
using Same = ck::tensor_operation::element_wise::PassThrough;
template <ck::index_t... Values>
using Seq = ck::Sequence<Values...>;

using Gemm = ck::tensor_operation::device::DeviceGemm_Xdl_CShuffle<
    Rows, Columns, Rows, Half, Half, Half, float, Half, Same, Same, Same,
    ck::tensor_operation::device::GemmSpecialization::Default,
    1,             // stages of prefetching
    256,           // work-items of a block
    128, 128, 32,  // a block's tile: rows, columns, depth
    8, 8,          // elements of A and B that are read at once
    32, 32, 2, 2,  // the matrix instruction, and how often a wavefront repeats it
    Seq<4, 64, 1>, Seq<1, 0, 2>, Seq<1, 0, 2>, 2, 8, 8, true, // how a block reads A
    Seq<4, 64, 1>, Seq<1, 0, 2>, Seq<1, 0, 2>, 2, 8, 8, true, // how a block reads B
    1, 1, Seq<1, 32, 1, 8>, 8>;                               // how it writes C

int main() {
    constexpr int m = 256, n = 128, k = 128;
    const auto a = draw<Half>(m * k, 1), b = draw<Half>(n * k, 2);
    const DeviceArray<Half> on_device_a(a), on_device_b(b), on_device_c(m * n);

    auto arguments = Gemm::MakeArgument(on_device_a.data(), on_device_b.data(), on_device_c.data(), m, n, k, k, k, n,
                                        Same{}, Same{}, Same{});
    if (!Gemm::IsSupportedArgument(arguments)) {
        std::fprintf(stderr, "this GEMM does not run on this GPU\n");
        return 2;
    }
    Gemm::MakeInvoker().Run(arguments, StreamConfig{});
    require(hipDeviceSynchronize());

    std::vector<float> expected(m * n);
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column)
            for (int i = 0; i < k; ++i)
                expected[row * n + column] +=
                    static_cast<float>(a[row * k + i]) * static_cast<float>(b[column * k + i]);
    return compare(on_device_c.read(), expected, 0.02F);
}

// Adds the squares of each row with Composable Kernel's DeviceReduceMultiBlock, one block for each set of rows.
#include <cstdio>

#include "check.hpp"
#include "ck/tensor_operation/gpu/device/impl/device_reduce_multiblock.hpp"
#include "ck/tensor_operation/gpu/element/element_wise_operation.hpp"
#include "ck/utility/reduction_operator.hpp"

using Square = ck::tensor_operation::element_wise::UnarySquare;
using Same = ck::tensor_operation::element_wise::PassThrough;

using Reduce = ck::tensor_operation::device::DeviceReduceMultiBlock<
    float, float, float,
    2, 1, // dimensions of the input, and how many of them are reduced
    ck::reduce::Add, Square, Same, ck::InMemoryDataOperationEnum::Set,
    false, false, false, // no checks of NaN, no indices
    256, 4, 64,          // work-items of a block: along the rows that stay, and along what is reduced
    1, 4,                // elements of each work-item, likewise
    1, 4, 1>;            // four at once are read of a row

int main() {
    constexpr int rows = 64, columns = 1024;
    const auto in = draw<float>(rows * columns, 3);
    const DeviceArray<float> on_device_in(in), on_device_out(rows);

    Reduce reduce;
    const auto arguments = reduce.MakeArgumentPointer({rows, columns}, {columns, 1}, {rows}, {1}, {1}, 1.0, 0.0,
                                                      on_device_in.data(), nullptr, on_device_out.data(), nullptr,
                                                      Square{}, Same{});
    if (!reduce.IsSupportedArgument(arguments.get())) {
        std::fprintf(stderr, "this reduction does not run on this GPU\n");
        return 2;
    }
    reduce.MakeInvokerPointer()->Run(arguments.get(), StreamConfig{});
    require(hipDeviceSynchronize());

    std::vector<float> expected(rows);
    for (int row = 0; row < rows; ++row) {
        double sum = 0;
        for (int i = 0; i < columns; ++i)
            sum += static_cast<double>(in[row * columns + i]) * in[row * columns + i];
        expected[row] = static_cast<float>(sum);
    }
    return compare(on_device_out.read(), expected, 0.01F);
}

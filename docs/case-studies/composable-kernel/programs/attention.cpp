// O = softmax(Q K^T / sqrt(d)) V with ck_tile's FmhaFwdKernel. Flash attention for AMD GPUs is built on it.
#include <algorithm>
#include <cstdint>
#include <tuple>

#include "check.hpp"
#include "ck_tile/core.hpp"
#include "ck_tile/host/kernel_launch.hpp"
#include "ck_tile/ops/epilogue.hpp"
#include "ck_tile/ops/fmha.hpp"

using ck_tile::sequence;
using Half = ck_tile::half_t;

constexpr int k_heads = 2, k_length = 128, k_depth = 64;

using Shape = ck_tile::TileFmhaShape<sequence<128, 64, 32, 64, 32, k_depth>, // tiles of Q, K and V
                                     sequence<4, 1, 1>, sequence<32, 32, 16>, // wavefronts, instruction for Q K^T
                                     sequence<4, 1, 1>, sequence<32, 32, 16>, // the same for P V
                                     true>;                                   // V is stored in rows
using Traits =
    ck_tile::TileFmhaTraits<false, false, false, false, // sizes are multiples of the tiles
                            false, ck_tile::BlockAttentionBiasEnum::NO_BIAS, false, false, false, false>;
using Problem = ck_tile::BlockFmhaPipelineProblem<
    Half, Half, Half, float, float, Half, std::uint8_t, float, Half, float, Half, Shape, false,
    ck_tile::ComposedAttention<0, CK_TILE_FMHA_FWD_FAST_EXP2>, ck_tile::GenericAttentionMask<false>, Traits>;
using Kernel = ck_tile::FmhaFwdKernel<
    ck_tile::BlockFmhaPipelineQRKSVS<Problem>,
    ck_tile::Default2DEpilogue<ck_tile::Default2DEpilogueProblem<float, Half, false, false>>>;

// The rows of all heads, one head after the other.
std::vector<float> attend(const std::vector<Half>& q, const std::vector<Half>& k, const std::vector<Half>& v,
                          float scale) {
    std::vector<float> out(q.size()), weights(k_length);
    for (int row = 0; row < k_heads * k_length; ++row) {
        const int first = row / k_length * k_length; // of this head
        float largest = -INFINITY, sum = 0;
        for (int j = 0; j < k_length; ++j) {
            weights[j] = 0;
            for (int d = 0; d < k_depth; ++d)
                weights[j] +=
                    static_cast<float>(q[row * k_depth + d]) * static_cast<float>(k[(first + j) * k_depth + d]);
            largest = std::max(largest, weights[j] *= scale);
        }
        for (float& weight : weights)
            sum += weight = std::exp(weight - largest);
        for (int j = 0; j < k_length; ++j)
            for (int d = 0; d < k_depth; ++d)
                out[row * k_depth + d] += weights[j] / sum * static_cast<float>(v[(first + j) * k_depth + d]);
    }
    return out;
}

int main() {
    constexpr int per_head = k_length * k_depth, count = k_heads * per_head;
    const auto q = draw<Half>(count, 4), k = draw<Half>(count, 5), v = draw<Half>(count, 6);
    const DeviceArray<Half> on_device_q(q), on_device_k(k), on_device_v(v), on_device_o(count);
    const float scale = 1 / std::sqrt(static_cast<float>(k_depth));

    const auto arguments = Kernel::MakeKargs(
        on_device_q.data(), on_device_k.data(), on_device_v.data(), nullptr, nullptr, nullptr,
        on_device_o.data(),
        k_length, k_length, k_depth, k_depth, k_heads, 1, scale, 1, 1, 0,
        k_depth, k_depth, k_depth, 0, 0, k_depth,              // from row to row
        per_head, per_head, per_head, 0, 0, 0, per_head,       // from head to head
        count, count, count, 0, 0, 0, count,                   // from batch to batch
        -1, -1, 0, 0, false, std::tuple<std::uint64_t, std::uint64_t>{0, 0});
    constexpr dim3 block = Kernel::BlockSize();
    const dim3 grid = Kernel::GridSize(1, k_heads, k_length, k_depth);
    ck_tile::launch_kernel(
        ck_tile::stream_config{},
        ck_tile::make_kernel<block.x, Kernel::kBlockPerCu>(Kernel{}, grid, block, 0, arguments));
    require(hipDeviceSynchronize());
    return compare(on_device_o.read(), attend(q, k, v, scale), 0.01F);
}

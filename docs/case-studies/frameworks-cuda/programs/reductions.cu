// Reductions as PyTorch compiles its own: kernels of ATen/native/cuda/Reduce.cuh, for many types in one unit.
//
// PyTorch's units are not in its wheel, but that header is. This unit includes what they include, and has about as many
// calls of gpu_reduce_kernel as the unit of sum() has: each instantiates the kernel for one, two and four results of a
// thread.
#define TORCH_ASSERT_NO_OPERATORS  // as in PyTorch's units: the headers of all operators are left out
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/SharedReduceOps.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/native/cuda/Reduce.cuh>

namespace reductions {

template <typename Input, typename Sum = Input, typename Output = Input>
void add(at::TensorIterator& tensors) {
  auto plus = [] GPU_LAMBDA(Sum left, Sum right) -> Sum { return left + right; };
  at::native::gpu_reduce_kernel<Input, Output>(tensors, at::native::func_wrapper<Output>(plus));
}

template <typename Input>
void multiply(at::TensorIterator& tensors) {
  auto times = [] GPU_LAMBDA(Input left, Input right) -> Input { return left * right; };
  at::native::gpu_reduce_kernel<Input, Input>(tensors, at::native::func_wrapper<Input>(times), 1.);
}

template <typename Input, typename Sum = Input, typename Output = Input>
void average(at::TensorIterator& tensors) {
  const Sum factor = static_cast<Sum>(tensors.num_output_elements()) / static_cast<Sum>(tensors.numel());
  at::native::gpu_reduce_kernel<Input, Output>(tensors, at::native::MeanOps<Input, Sum, Sum, Output>{factor});
}

// Of half precision the sum is kept in single precision, and so may be the result.
void sum(at::TensorIterator& tensors) {
  const auto input = tensors.dtype(1), output = tensors.dtype(0);
  if (input == at::kHalf && output == at::kHalf) return add<at::Half, float>(tensors);
  if (input == at::kHalf) return add<at::Half, float, float>(tensors);
  if (input == at::kBFloat16 && output == at::kBFloat16) return add<at::BFloat16, float>(tensors);
  if (input == at::kBFloat16) return add<at::BFloat16, float, float>(tensors);
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(at::kBool, input, "reductions::sum", [&] { add<scalar_t>(tensors); });
}

void product(at::TensorIterator& tensors) {
  AT_DISPATCH_FLOATING_TYPES(tensors.dtype(1), "reductions::product", [&] { multiply<scalar_t>(tensors); });
}

void mean(at::TensorIterator& tensors) {
  const auto input = tensors.dtype(1), output = tensors.dtype(0);
  if (input == at::kHalf && output == at::kHalf) return average<at::Half, float>(tensors);
  if (input == at::kHalf) return average<at::Half, float, float>(tensors);
  AT_DISPATCH_FLOATING_TYPES(input, "reductions::mean", [&] { average<scalar_t>(tensors); });
}

}  // namespace reductions

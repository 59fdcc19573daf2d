// Operators for the kernels in reductions.cu: each reduces the last dimension of a tensor, which stays with size 1.
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace reductions {

void sum(at::TensorIterator& tensors);
void product(at::TensorIterator& tensors);
void mean(at::TensorIterator& tensors);

namespace {

template <void (*reduce)(at::TensorIterator&)>
at::Tensor over_rows(const at::Tensor& input) {
  auto shape = input.sizes().vec();
  TORCH_CHECK(!shape.empty() && input.numel() > 0, "there is nothing to reduce");
  shape.back() = 1;
  at::Tensor output = at::empty(shape, input.options());
  auto tensors = at::TensorIterator::reduce_op(output, input);
  reduce(tensors);
  return output;
}

}  // namespace

TORCH_LIBRARY(kerncap_reductions, library) {
  library.def("sum(Tensor input) -> Tensor", over_rows<&sum>);
  library.def("product(Tensor input) -> Tensor", over_rows<&product>);
  library.def("mean(Tensor input) -> Tensor", over_rows<&mean>);
}

}  // namespace reductions

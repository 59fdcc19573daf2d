"""Edits of the kernels in programs/triton/kernels.py."""

# function of kernels.py -> its kernel, a right edit and a wrong one: (old text, new text)
EDITS = {
    "add": ("add_kernel", ("a = tl.load(x + at, mask=mask)", "a = tl.load(x + at, mask, 0.0)"), ("-x", "x")),
    "softmax": ("softmax_kernel",
                ("values - tl.max(values, axis=0)", "-tl.max(values, axis=0) + values"),
                ("tl.sum(powers, axis=0)", "tl.max(powers, axis=0)")),
    "layer_norm": ("layer_norm_kernel", ("centred * centred", "(centred * centred)"),
                   ("/ columns\n", "/ 2\n")),
    "matmul": ("matmul_kernel", ("total += tl.dot(left, right)", "total = tl.dot(left, right, total)"),
               ("tl.dot(left, right)", "tl.dot(left, left)")),
    "atomics": ("count_kernel", ("other=0), 1,", "other=0), 2 - 1,"), ("other=0), 1,", "other=0), 2,")),
    "attention": ("attention_kernel", ("largest = higher", "largest = tl.maximum(higher, largest)"),
                  ("shrink[:, None] +", "1.0 +")),
    "fp8": ("fp8_kernel", (".to(tl.float32) * 2", ".to(tl.float32) * 4 * 0.5"), ("* 2)", "* 3)")),
    "descriptors": ("copy_kernel", ("given.load([at, 0]) + 1", "1 + given.load([at, 0])"), ("+ 1)", "+ 2)")),
    "host_descriptors": ("double_kernel", ("* 2)", "* 4 * 0.5)"), ("* 2)", "* 4)")),
}  # fmt: skip

"""Write a C++ source that holds code objects: embed.py OUTPUT KERNEL:TARGET=FILE..."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Turn each file into an array, and list them in one table."""
    output, *pairs = sys.argv[1:]
    lines = [
        "// Generated from kernels/*.cl; do not edit.",
        '#include "hsa/embedded_kernels.hpp"',
        "namespace kerncap::hsa {",
        "namespace {",
    ]
    table = []
    for number, pair in enumerate(pairs):
        what, _, path = pair.partition("=")
        kernel, _, target = what.partition(":")
        data = Path(path).read_bytes()
        lines.append(f"alignas(4096) constexpr unsigned char k_object_{number}[] = {{")
        lines += [",".join(map(str, data[i : i + 32])) + "," for i in range(0, len(data), 32)]
        lines.append("};")
        table.append(f'    {{"{kernel}", "{target}", k_object_{number}, sizeof k_object_{number}}},')
    lines += [
        "}  // namespace",
        "std::vector<EmbeddedKernel> embedded_kernels(std::string_view file, std::string_view isa) {",
        "  std::string_view target = isa.substr(isa.rfind('-') == isa.npos ? 0 : isa.find(\"--\") + 2);",
        "  target = target.substr(0, target.find(':'));",
        "  std::vector<EmbeddedKernel> all, generic;",
        "  for (const EmbeddedKernel& kernel : std::vector<EmbeddedKernel>{",
        *table,
        "  }) {",
        "    if (kernel.file != file) continue;",
        "    if (kernel.target == target) all.push_back(kernel);",
        '    if (std::string_view(kernel.target).ends_with("-generic")) generic.push_back(kernel);',
        "  }",
        "  all.insert(all.end(), generic.begin(), generic.end());",
        "  return all;",
        "}",
        "}  // namespace kerncap::hsa",
    ]
    Path(output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

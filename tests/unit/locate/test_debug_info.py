from pathlib import Path

from kerncap_stages.compilers.debug_info import defines_kernel, find_definition

MODULE = r"""
source_filename = "k.hip"
define protected amdgpu_kernel void @_Z1kPf(ptr %0) !dbg !5 { ret void }
define protected amdgpu_kernel void @"caf\C3\A9"(ptr addrspace(1) noundef %0) #0 { ret void }
define linkonce_odr hidden noundef float @_Z6helperf(float noundef %0) { ret float %0 }
declare amdgpu_kernel void @_Z8declaredv()
!1 = !DIFile(filename: "k.hip", directory: "/w/\22a b\22", checksumkind: CSK_MD5, checksum: "00")
!2 = !DIFile(filename: "/w/caf\C3\A9/made.hpp", directory: "/w")
!3 = !DISubprogram(name: "declared", linkageName: "_Z8declaredv", scope: !1, file: !1, line: 3)
!5 = distinct !DISubprogram(name: "k", linkageName: "_Z1kPf", scope: !1, file: !1, line: 7, scopeLine: 8)
!6 = distinct !DISubprogram(name: "plain", scope: !2, file: !2, line: 12, type: !9, scopeLine: 12)
!7 = distinct !DISubprogram(name: "k", linkageName: "_Z1kPd", scope: !1, file: !1, line: 70, type: !9)
"""


def test_a_function_is_found_by_its_symbol():
    assert find_definition(MODULE, "_Z1kPf") == (Path('/w/"a b"/k.hip'), 7)
    assert find_definition(MODULE, "_Z1kPd") == (Path('/w/"a b"/k.hip'), 70)
    assert find_definition(MODULE, "plain") == (Path("/w/café/made.hpp"), 12)


def test_what_is_only_declared_or_has_another_symbol_is_not():
    assert find_definition(MODULE, "_Z8declaredv") is None
    assert find_definition(MODULE, "k") is None


def test_kernels_of_a_module_are_told_from_other_functions():
    named = ("_Z1kPf", "café", "_Z6helperf", "_Z8declaredv")
    assert [name for name in named if defines_kernel(MODULE, name)] == ["_Z1kPf", "café"]

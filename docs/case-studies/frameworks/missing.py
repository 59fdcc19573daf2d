"""Stand-ins for libraries that the wheels of CuPy and JAX name, and that Debian does not have.

Each function of a stand-in stops the program (CuPy calls none of them), returns an error (the profiler and
the monitor of JAX, which then goes on without), or calls Debian's function of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from running import run

if TYPE_CHECKING:
    from pathlib import Path

STOPS = "stops the program"
FAILS = "returns an error"
FORWARDS = "calls Debian's library"

_COMMON = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
"""
_STOPS = """\
void {name}(void) {{ fputs("stand-in: {name} was called\\n", stderr); abort(); }}
"""
_FAILS = """\
int {name}(void) {{ return {code}; }}
"""
# The software GPU stands before libdrm, so its function is taken if it has one.
_FORWARDS = """\
static void* real_{name};
__attribute__((naked)) void {name}(void) {{ __asm__("jmp *real_{name}(%rip)"); }}
__attribute__((constructor)) static void find_{name}(void) {{
  Dl_info found;
  void* candidate = dlsym(RTLD_DEFAULT, "{name}");
  if (candidate && dladdr(candidate, &found) && strstr(found.dli_fname, "softgpu")) real_{name} = candidate;
  else real_{name} = dlsym(dlopen("{library}", RTLD_NOW), "{name}");
  if (!real_{name}) {{ fputs("stand-in: {library} has no {name}\\n", stderr); abort(); }}
}}
"""
_TEXTS = {
    "amdsmi_status_code_to_string": """\
int amdsmi_status_code_to_string(int code, const char** text) {
  (void)code;
  *text = "this is a stand-in";
  return 0;
}
""",
    "rocprofiler_get_status_string": """\
const char* rocprofiler_get_status_string(int code) { (void)code; return "this is a stand-in"; }
""",
}


@dataclass(frozen=True)
class StandIn:
    """A library that is missing: its file name, the versions of its symbols, and what each function does."""

    library: str
    of: str
    does: str
    functions: dict[str, tuple[str, ...]]  # by version; "" is none
    real: str = ""
    code: int = 1  # which error

    def build(self, folder: Path, log: Path) -> None:
        """Compile it into a folder."""
        names = [name for group in self.functions.values() for name in group]
        source, versions = folder / f"{self.library}.c", folder / f"{self.library}.map"
        source.write_text(_COMMON + "".join(self._write(name) for name in names))
        groups = [(version, group) for version, group in self.functions.items() if version]
        versions.write_text("".join(f"{version} {{ {'; '.join(group)}; }};\n" for version, group in groups))
        script = [f"-Wl,--version-script={versions}"] if groups else []
        soname = f"-Wl,-soname,{self.library}"
        run("gcc", "-O1", "-shared", "-fPIC", source, soname, *script, "-o", folder / self.library, log=log)

    def _write(self, name: str) -> str:
        if name in _TEXTS:
            return _TEXTS[name]
        form = {STOPS: _STOPS, FAILS: _FAILS, FORWARDS: _FORWARDS}[self.does]
        return form.format(name=name, code=self.code, library=self.real)


CUPY = (
    StandIn(
        "libroctracer64.so.4", "roctracer", STOPS, {"ROCTRACER_4.0": ("roctracer_start", "roctracer_stop")}
    ),
)
JAX = (
    StandIn(
        "librocprofiler-sdk.so.1",
        "ROCprofiler-SDK",
        FAILS,
        {
            "": tuple(
                f"rocprofiler_{name}"
                for name in (
                    "assign_callback_thread", "configure_buffer_tracing_service",
                    "configure_callback_tracing_service",
                    "configure_external_correlation_id_request_service", "context_is_valid",
                    "create_buffer", "create_callback_thread", "create_context", "flush_buffer",
                    "force_configure", "get_status_string", "get_timestamp",
                    "iterate_callback_tracing_kind_operations", "iterate_callback_tracing_kinds",
                    "query_available_agents", "query_callback_tracing_kind_name",
                    "query_callback_tracing_kind_operation_name", "start_context", "stop_context",
                )
            )
        },
    ),
    StandIn(
        "libamd_smi.so.26",
        "AMD SMI",
        FAILS,
        {
            "AMDSMI_1": tuple(
                f"amdsmi_{name}"
                for name in (
                    "get_gpu_metrics_info", "get_pcie_info", "get_processor_handle_from_bdf",
                    "get_processor_handles", "get_processor_type", "get_socket_handles", "get_xgmi_info",
                    "init", "status_code_to_string", "topo_get_link_type",
                )
            )
        },
        code=2,  # not supported
    ),
    StandIn(
        "librocm_sysdeps_drm.so.2",
        "libdrm, under AMD's name",
        FORWARDS,
        {
            "AMDROCM_SYSDEPS_1.0": (
                "drmCommandWriteRead", "drmIoctl", "drmSyncobjCreate", "drmSyncobjDestroy",
            )
        },
        real="libdrm.so.2",
    ),
    StandIn(
        "librocm_sysdeps_drm_amdgpu.so.1",
        "libdrm_amdgpu, under AMD's name",
        FORWARDS,
        {
            "AMDROCM_SYSDEPS_1.0": tuple(
                f"amdgpu_{name}"
                for name in (
                    "bo_cpu_map", "bo_export", "bo_free", "bo_import", "bo_query_info", "bo_set_metadata",
                    "bo_va_op", "device_deinitialize", "device_get_fd", "device_initialize",
                    "get_marketing_name", "query_gpu_info",
                )
            )
        },
        real="libdrm_amdgpu.so.1",
    ),
    StandIn(
        "librocm_sysdeps_numa.so.1",
        "libnuma, under AMD's name",
        FORWARDS,
        {
            "AMDROCM_SYSDEPS_1.0_libnuma_1.1": (
                "mbind", "numa_available", "numa_max_node", "numa_node_size64",
            ),
            "AMDROCM_SYSDEPS_1.0_libnuma_1.2": (
                "numa_bitmask_alloc", "numa_bitmask_free", "numa_bitmask_setbit",
            ),
        },
        real="libnuma.so.1",
    ),
)  # fmt: skip

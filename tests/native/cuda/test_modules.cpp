// Kernels of one name in several modules: each capture holds the cubin that the kernel is of, or is refused. Driver and CUPTI are
// stubs (stub_cuda.hpp): the handles of a module and its kernels are told apart by their leading digit.
#include <array>
#include <map>

#include "stub_cuda.hpp"
#include "cuda/graphs.hpp"

using namespace kerncap::test;

namespace {

// Each has a kernel `add`, as of several files of a program: the second has another variable, the third other instructions alone,
// the fourth another kernel.
std::array<std::string, 4> g_cubins;

std::uintptr_t leading(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle) >> 16; }
CUmodule module_of(std::uintptr_t digit) { return handle<CUmodule>(digit << 16); }
CUfunction function_of(std::uintptr_t digit) { return handle<CUfunction>(digit << 16 | 0x100); }

// What the driver finds in a module.
std::map<std::uintptr_t, std::string> g_variable;
std::map<std::uintptr_t, std::vector<const char*>> g_kernels;
// The first question about this function loads its module.
std::uintptr_t g_unloaded = 0;
std::uint32_t g_loaded = 0;

const auto k_second_context = handle<CUcontext>(0x7000);
// Handles with this digit are a CUkernel's, which has a function in each of two contexts.
constexpr std::uintptr_t k_of_library = 20;
CUcontext g_current = k_context;

CUresult CUDAAPI function_of_kernel(CUfunction* function, CUkernel kernel) {
  if (leading(kernel) != k_of_library) return CUDA_ERROR_INVALID_HANDLE;
  *function = function_of(k_of_library + (g_current == k_context ? 1 : 2));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI module_of_function(CUmodule* module, CUfunction function) {
  if (leading(function) == k_of_library) return CUDA_ERROR_INVALID_HANDLE;
  if (leading(function) == g_unloaded) {
    g_unloaded = 0;
    g_loaded = load_cubin(g_cubins[2]);
  }
  *module = module_of(leading(function));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI variable_of_module(CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
  const std::string_view wanted(name);
  const bool is_there = wanted == "scale_by" || wanted == g_variable[leading(module)];
  *address = 0x200000;
  *bytes = wanted == "scale_by" ? 4 : 16;
  return is_there ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult CUDAAPI count_kernels(unsigned* count, CUmodule module) {
  *count = static_cast<unsigned>(g_kernels[leading(module)].size());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI list_kernels(CUfunction* functions, unsigned count, CUmodule module) {
  for (unsigned i = 0; i < count; ++i) functions[i] = handle<CUfunction>(leading(module) << 16 | i);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI name_kernel(const char** name, CUfunction function) {
  *name = g_kernels[leading(function)][reinterpret_cast<std::uintptr_t>(function) & 0xFF];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI module_of_library(CUmodule* module, CUlibrary library) {
  *module = module_of(leading(library));
  return CUDA_SUCCESS;
}

// Which module a launch is captured with; none where that is refused.
std::optional<std::uint64_t> captured(Collector& collector, std::uintptr_t digit) {
  const std::size_t before = collector.heard().captures.size();
  Launch launch(function_of(digit));
  launch.in(g_current);
  launch.run();
  const std::vector<Captured> captures = collector.heard().captures;
  if (captures.size() == before) return std::nullopt;
  return captures.back().module;
}

void kernels_are_told_apart_by_what_else_is_in_their_modules(Collector& collector) {
  // Both were loaded by calls that say nothing of modules, such as questions about attributes.
  const std::uint32_t first = load_cubin(g_cubins[0]);
  const std::uint32_t second = load_cubin(g_cubins[1]);
  g_variable = {{1, "bias"}, {2, "bies"}};
  CHECK(captured(collector, 1) == first);
  CHECK(captured(collector, 2) == second);
  unload_cubin(first);
  unload_cubin(second);
}

void also_by_other_kernels(Collector& collector) {
  const std::uint32_t first = load_cubin(g_cubins[0]);
  const std::uint32_t second = load_cubin(g_cubins[3]);
  g_variable = {{11, "bias"}, {12, "bias"}};
  g_kernels = {{11, {"add", "_Z9incrementIfEvPT_", "_Z8allocatePPi"}}, {12, {"add", "_Z8allocatePPi", "_Z9decrementIfEvPT_"}}};
  CHECK(captured(collector, 12) == second);
  CHECK(captured(collector, 11) == first);
  unload_cubin(first);
  unload_cubin(second);
}

void kernels_that_nothing_tells_apart_are_refused(Collector& collector) {
  const std::uint32_t first = load_cubin(g_cubins[0]);
  const std::uint32_t second = load_cubin(g_cubins[2]);
  g_variable = {{3, "bias"}};
  CHECK(!captured(collector, 3));
  const std::vector<std::string> failures = collector.heard().failures;
  CHECK(failures.size() == 1 && failures.back().find("several modules that hold a kernel of this name") != std::string::npos);
  unload_cubin(first);
  unload_cubin(second);
}

void copies_of_one_cubin_need_not_be_told_apart(Collector& collector) {
  const std::uint32_t first = load_cubin(g_cubins[0]);
  const std::uint32_t second = load_cubin(g_cubins[0]);
  CHECK(captured(collector, 4) == second);
  unload_cubin(first);
  unload_cubin(second);
}

void a_library_has_a_module_in_each_context(Collector& collector) {
  const std::uint32_t here = load_cubin(g_cubins[0]);
  const std::uint32_t elsewhere = load_cubin(g_cubins[2], handle<CUcontext>(0x7000));
  CHECK(captured(collector, 5) == here);
  unload_cubin(here);
  unload_cubin(elsewhere);
}

void a_kernel_of_a_library_is_captured_with_the_module_of_its_context(Collector& collector) {
  const std::uint32_t here = load_cubin(g_cubins[0]);
  const std::uint32_t elsewhere = load_cubin(g_cubins[0], k_second_context);
  driver_stub().cuCtxGetCurrent = [](CUcontext* context) {
    *context = g_current;
    return CUDA_SUCCESS;
  };
  driver_stub().cuCtxPushCurrent_v2 = [](CUcontext context) {
    g_current = context;
    return CUDA_SUCCESS;
  };
  driver_stub().cuCtxPopCurrent_v2 = [](CUcontext*) {
    g_current = k_context;
    return CUDA_SUCCESS;
  };
  driver_stub().cuKernelGetName = [](const char** name, CUkernel) {
    *name = "add";
    return CUDA_SUCCESS;
  };
  CHECK(captured(collector, k_of_library) == here);
  CUDA_KERNEL_NODE_PARAMS node{};
  node.kern = reinterpret_cast<CUkernel>(function_of(k_of_library));
  node.ctx = k_second_context;
  const Kernel* named = kernel_named_by(node);   // of a graph that is made while the first context is current
  CHECK(named != nullptr && named->module == elsewhere && g_current == k_context);
  for (int round = 0; round < 2; ++round) {
    g_current = k_context;
    CHECK(captured(collector, k_of_library) == here);
    g_current = k_second_context;
    CHECK(captured(collector, k_of_library) == elsewhere);
  }
  unload_cubin(elsewhere);
  const std::uint32_t again = load_cubin(g_cubins[0], k_second_context);
  CHECK(captured(collector, k_of_library) == again);
  g_current = k_context;
  CHECK(captured(collector, k_of_library) == here);
  unload_cubin(here);
  unload_cubin(again);
}

void a_call_names_what_it_loads(Collector& collector) {
  CUlibrary library = handle<CUlibrary>(6 << 16);
  cuLibraryLoadData_params library_loaded{};
  library_loaded.library = &library;
  Call load_library(CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData, &library_loaded);
  load_library.enter();
  const std::uint32_t first = load_cubin(g_cubins[0]);
  load_library.leave();
  cuModuleGetFunction_params asked{};
  asked.hmod = module_of(7);
  Call get_function(CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction, &asked);
  get_function.enter();
  const std::uint32_t second = load_cubin(g_cubins[2]);
  get_function.leave();
  CHECK(captured(collector, 6) == first);
  CHECK(captured(collector, 7) == second);
  unload_cubin(first);
  unload_cubin(second);
}

void a_call_does_not_name_what_was_loaded_before_it(Collector& collector) {
  const std::uint32_t first = load_cubin(g_cubins[0]);
  CUmodule module = module_of(8);
  cuModuleLoadData_params module_loaded{};
  module_loaded.module = &module;
  Call load(CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData, &module_loaded);
  load.enter();   // nothing yet: its kernels come when they are wanted
  load.leave();
  CHECK(captured(collector, 9) == first);
  unload_cubin(first);
}

void a_module_that_the_question_loads_is_the_kernel_s(Collector& collector) {
  const std::uint32_t before = load_cubin(g_cubins[0]);
  g_unloaded = 10;
  CHECK(captured(collector, 10) == g_loaded && g_loaded > before);
  unload_cubin(before);
  unload_cubin(g_loaded);
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what)) text.replace(at, what.size(), with);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  g_cubins.fill(read_file(argv[1]));
  replace(g_cubins[1], "bias", "bies");
  g_cubins[2].back() = static_cast<char>(~g_cubins[2].back());
  replace(g_cubins[3], "_Z9increment", "_Z9decrement");
  Collector& collector = start_library({.count = 1000});
  driver_stub().cuFuncGetModule = module_of_function;
  driver_stub().cuKernelGetFunction = function_of_kernel;
  driver_stub().cuModuleGetGlobal_v2 = variable_of_module;
  driver_stub().cuLibraryGetModule = module_of_library;
  driver_stub().cuModuleGetFunctionCount = count_kernels;
  driver_stub().cuModuleEnumerateFunctions = list_kernels;
  driver_stub().cuFuncGetName = name_kernel;
  kernels_are_told_apart_by_what_else_is_in_their_modules(collector);
  also_by_other_kernels(collector);
  kernels_that_nothing_tells_apart_are_refused(collector);
  copies_of_one_cubin_need_not_be_told_apart(collector);
  a_library_has_a_module_in_each_context(collector);
  a_kernel_of_a_library_is_captured_with_the_module_of_its_context(collector);
  a_call_names_what_it_loads(collector);
  a_call_does_not_name_what_was_loaded_before_it(collector);
  a_module_that_the_question_loads_is_the_kernel_s(collector);
  return kerncap::test::exit_code();
}

// Two kernels of one name that hipRTC compiles, before anything else uses HIP: a template, a header that the program passes,
// a macro that differs.
//
// usage: run_time_compiled ARCHITECTURE [opened]     opened: hipRTC is opened by dlopen
#include <dlfcn.h>
#include <hip/hiprtc.h>

#include <string>

#include "hip_check.hpp"

namespace {

constexpr const char* k_source = R"(#include "blend/blend.h"

template <typename T>
__global__ void blend(T* out, const T* left, const T* right, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = blended(left[i], right[i]) * FACTOR;
}

extern "C" __global__ void other(float* out) { out[threadIdx.x] = FACTOR; }
)";
constexpr const char* k_header = R"(template <typename T>
__device__ T blended(T left, T right) {
  return left + right;
}
)";
constexpr const char* k_name = "blend<float>";

struct Compiler {
  decltype(&hiprtcCreateProgram) create = &hiprtcCreateProgram;
  decltype(&hiprtcAddNameExpression) name = &hiprtcAddNameExpression;
  decltype(&hiprtcCompileProgram) compile = &hiprtcCompileProgram;
  decltype(&hiprtcGetLoweredName) lowered = &hiprtcGetLoweredName;
  decltype(&hiprtcGetCodeSize) size = &hiprtcGetCodeSize;
  decltype(&hiprtcGetCode) code = &hiprtcGetCode;
  decltype(&hiprtcDestroyProgram) destroy = &hiprtcDestroyProgram;

  void open() {
    void* const library = dlopen("libhiprtc.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw_away("libhiprtc.so");
    load(library, "hiprtcCreateProgram", create);
    load(library, "hiprtcAddNameExpression", name);
    load(library, "hiprtcCompileProgram", compile);
    load(library, "hiprtcGetLoweredName", lowered);
    load(library, "hiprtcGetCodeSize", size);
    load(library, "hiprtcGetCode", code);
    load(library, "hiprtcDestroyProgram", destroy);
  }

 private:
  [[noreturn]] static void throw_away(const char* what) {
    std::fprintf(stderr, "cannot open %s\n", what);
    std::exit(1);
  }

  template <typename Function>
  static void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw_away(name);
  }
};

struct Compiled {
  std::vector<char> code;
  std::string symbol;
};

void check(hiprtcResult result, const char* what) {
  if (result == HIPRTC_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
  std::exit(1);
}

Compiled compile(const Compiler& hiprtc, const std::string& architecture, int factor) {
  const std::string target = "--offload-arch=" + architecture;
  const std::string macro = "-DFACTOR=" + std::to_string(factor);
  const char* options[] = {target.c_str(), macro.c_str()};
  const char* header_names[] = {"blend/blend.h"};
  hiprtcProgram program{};
  check(hiprtc.create(&program, k_source, "blend.cu", 1, const_cast<const char**>(&k_header), header_names), "create");
  check(hiprtc.name(program, k_name), "name");
  check(hiprtc.compile(program, 2, options), "compile");
  const char* symbol = nullptr;
  check(hiprtc.lowered(program, k_name, &symbol), "lowered name");
  std::size_t size = 0;
  check(hiprtc.size(program, &size), "size");
  Compiled compiled{std::vector<char>(size), symbol};
  check(hiprtc.code(program, compiled.code.data()), "code");
  check(hiprtc.destroy(&program), "destroy");
  return compiled;
}

void launch(const Compiled& compiled, const DeviceArray<float>& out, const DeviceArray<float>& left,
            const DeviceArray<float>& right, int count) {
  hipModule_t module{};
  hipFunction_t function{};
  HIP_OK(hipModuleLoadData(&module, compiled.code.data()));
  HIP_OK(hipModuleGetFunction(&function, module, compiled.symbol.c_str()));
  float *out_data = out.get(), *left_data = left.get(), *right_data = right.get();
  void* arguments[] = {&out_data, &left_data, &right_data, &count};
  HIP_OK(hipModuleLaunchKernel(function, (count + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipModuleUnload(module));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  Compiler hiprtc;
  if (count > 2) hiprtc.open();
  const Compiled doubled = compile(hiprtc, arguments[1], 2);
  const Compiled tripled = compile(hiprtc, arguments[1], 3);
  constexpr int k_count = 1000;
  std::vector<float> left(k_count), right(k_count), by_two(k_count), by_three(k_count);
  for (int i = 0; i < k_count; ++i) {
    left[i] = static_cast<float>(i);
    right[i] = 0.5F;
    by_two[i] = (left[i] + right[i]) * 2;
    by_three[i] = (left[i] + right[i]) * 3;
  }
  const DeviceArray<float> device_left(left), device_right(right), first(k_count), second(k_count);
  launch(doubled, first, device_left, device_right, k_count);
  launch(tripled, second, device_left, device_right, k_count);
  Tally tally("run_time_compiled");
  tally.equal("by two", first.read(), by_two);
  tally.equal("by three", second.read(), by_three);
  return tally.finish();
}

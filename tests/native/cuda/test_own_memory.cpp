// Device memory of ours: what is mapped is unmapped, and what cannot be is cuMemAlloc's. The driver is a table of stubs, which count:
// that the real one waits for nothing when it unmaps is not shown here.
#include <string>

#include "stub_cuda.hpp"
#include "cuda/own_memory.hpp"

using namespace kerncap::test;

namespace {

std::string g_calls;
char g_fails = 0;                      // the call that does, by its letter

CUresult note(char letter) {
  g_calls += letter;
  return letter == g_fails ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

void fill() {
  Driver& table = driver_stub();
  table.cuMemGetAllocationGranularity = [](std::size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
    *bytes = 0x1000;
    return CUDA_SUCCESS;
  };
  table.cuMemCreate = [](CUmemGenericAllocationHandle* made, std::size_t bytes, const CUmemAllocationProp*, unsigned long long) {
    CHECK(bytes == 0x3000);
    *made = 5;
    return note('c');
  };
  table.cuMemAddressReserve = [](CUdeviceptr* address, std::size_t, std::size_t, CUdeviceptr, unsigned long long) {
    *address = 0x200000;
    return note('v');
  };
  table.cuMemMap = [](CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long) { return note('m'); };
  table.cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) { return note('s'); };
  table.cuMemRelease = [](CUmemGenericAllocationHandle) { return note('r'); };
  table.cuMemUnmap = [](CUdeviceptr address, std::size_t bytes) {
    CHECK(address == 0x200000 && bytes == 0x3000);
    return note('u');
  };
  table.cuMemAddressFree = [](CUdeviceptr address, std::size_t bytes) {
    CHECK(address == 0x200000 && bytes == 0x3000);
    return note('w');
  };
  table.cuMemAlloc_v2 = [](CUdeviceptr* address, std::size_t) {
    *address = 0x900000;
    return note('a');
  };
  table.cuMemFree_v2 = [](CUdeviceptr address) {
    CHECK(address == 0x900000);
    return note('f');
  };
}

std::string calls_when(char fails) {
  g_calls.clear();
  g_fails = fails;
  OwnMemory memory;
  const CUdeviceptr made = memory.allocate(0x2001);
  CHECK(made == (fails == 0 ? 0x200000 : 0x900000));
  CHECK(memory.free(made) == CUDA_SUCCESS);
  return g_calls;
}

}  // namespace

int main() {
  fill_tables();
  fill();
  CHECK(calls_when(0) == "cvmsruw");
  CHECK(calls_when('c') == "caf");
  CHECK(calls_when('v') == "cvraf");
  CHECK(calls_when('m') == "cvmwraf");
  CHECK(calls_when('s') == "cvmsuwraf");
  return kerncap::test::exit_code();
}

// Device memory of one process in another, by HIP's handles: a kernel there reads and writes it.
#include <sys/wait.h>
#include <unistd.h>

#include "hip_check.hpp"

__global__ void multiply(int* data, int factor, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] *= factor;
}

namespace {

constexpr int k_count = 5000;

struct Message {
  hipIpcMemHandle_t memory;
  std::size_t offset;
};

int child(int from_parent, int to_parent) {
  Message message;
  if (read(from_parent, &message, sizeof message) != static_cast<ssize_t>(sizeof message)) return 2;
  void* base = nullptr;
  HIP_OK(hipIpcOpenMemHandle(&base, message.memory, hipIpcMemLazyEnablePeerAccess));
  int* data = reinterpret_cast<int*>(static_cast<char*>(base) + message.offset);
  multiply<<<(k_count + 63) / 64, 64>>>(data, 3, k_count);
  HIP_DONE();
  int first = 0;
  HIP_OK(hipMemcpy(&first, data + 1, sizeof first, hipMemcpyDeviceToHost));
  HIP_OK(hipIpcCloseMemHandle(base));
  const char done = 1;
  return first == 3 && write(to_parent, &done, 1) == 1 ? 0 : 3;
}

}  // namespace

int main() {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) return 1;
  const pid_t pid = fork();  // before any use of HIP
  if (pid == 0) return child(down[0], up[1]);
  close(up[1]);
  Tally tally("ipc");
  std::vector<int> host(k_count), wanted(k_count);
  for (int i = 0; i < k_count; ++i) host[i] = i, wanted[i] = 15 * i;
  const DeviceArray<int> data(host);
  Message message{};
  HIP_OK(hipIpcGetMemHandle(&message.memory, data.get()));
  tally.expect(write(down[1], &message, sizeof message) == static_cast<ssize_t>(sizeof message), "handle sent", 0, 0, 1);
  char done = 0;
  tally.expect(read(up[0], &done, 1) == 1, "child multiplied", 0, 0, 1);
  multiply<<<(k_count + 63) / 64, 64>>>(data.get(), 5, k_count);
  HIP_DONE();
  tally.equal("both factors", data.read(), wanted);
  int status = -1;
  waitpid(pid, &status, 0);
  tally.equal("child's status", 0, status, 0);
  return tally.finish();
}

// Memory that another process made, by file descriptor: mapped physical memory, and an allocation of its pool.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "exported_memory.cuh"

__global__ void add_imported(int* mapped, int* pooled, const int* own) {
  const int i = static_cast<int>(threadIdx.x);
  mapped[i] += own[i];
  pooled[i] += 2 * own[i];
}

constexpr std::size_t k_bytes = 4 << 20;

void send_descriptor(int socket, int descriptor, const void* data, std::size_t bytes) {
  iovec part{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  EXPECT(sendmsg(socket, &message, 0) == static_cast<ssize_t>(bytes));
}

int receive_descriptor(int socket, void* data, std::size_t bytes) {
  iovec part{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT(recvmsg(socket, &message, 0) == static_cast<ssize_t>(bytes));
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return descriptor;
}

CUmemAccessDesc full_access() {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

CUdeviceptr map(CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  DRIVER(cuMemAddressReserve, &address, k_bytes, std::size_t{0}, CUdeviceptr{0}, 0ull);
  DRIVER(cuMemMap, address, k_bytes, std::size_t{0}, handle, 0ull);
  const CUmemAccessDesc access = full_access();
  DRIVER(cuMemSetAccess, address, k_bytes, &access, std::size_t{1});
  return address;
}

int child(int socket) {
  char nothing = 0;
  int* own = nullptr;
  CHECK(cudaMalloc(&own, 128 * sizeof(int)));
  CHECK(cudaMemset(own, 1, 128 * sizeof(int)));
  CUmemGenericAllocationHandle handle = 0;
  const int mapped_descriptor = receive_descriptor(socket, &nothing, 1);
  DRIVER(cuMemImportFromShareableHandle, &handle, reinterpret_cast<void*>(static_cast<intptr_t>(mapped_descriptor)),
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const CUdeviceptr mapped = map(handle);
  cudaMemPoolPtrExportData exported{};
  const int pool_descriptor = receive_descriptor(socket, &exported, sizeof exported);
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(static_cast<intptr_t>(pool_descriptor)),
                                             cudaMemHandleTypePosixFileDescriptor, 0));
  cudaMemAccessDesc rights{};
  rights.location = {cudaMemLocationTypeDevice, 0};
  rights.flags = cudaMemAccessFlagsProtReadWrite;
  CHECK(cudaMemPoolSetAccess(pool, &rights, 1));
  void* pooled = nullptr;
  CHECK(cudaMemPoolImportPointer(&pooled, pool, &exported));
  for (int run = 0; run < 2; ++run) add_imported<<<1, 128>>>(reinterpret_cast<int*>(mapped), static_cast<int*>(pooled), own);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeAsync(pooled, nullptr));
  CHECK(cudaDeviceSynchronize());
  return 0;
}

int main() {
  int sockets[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
  const pid_t pid = fork();  // before any use of CUDA
  if (pid == 0) return child(sockets[1]);
  CHECK(cudaFree(nullptr));
  const Exported memory = export_memory(k_bytes);
  const CUdeviceptr mapped = map(memory.handle);
  CHECK(cudaMemset(reinterpret_cast<void*>(mapped), 0, k_bytes));

  cudaMemPoolProps pool_properties{};
  pool_properties.allocType = cudaMemAllocationTypePinned;
  pool_properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  pool_properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &pool_properties));
  int* pooled = nullptr;
  CHECK(cudaMallocFromPoolAsync(&pooled, 5000, pool, nullptr));
  CHECK(cudaMemset(pooled, 0, 5000));
  CHECK(cudaDeviceSynchronize());
  int pool_descriptor = -1;
  CHECK(cudaMemPoolExportToShareableHandle(&pool_descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  cudaMemPoolPtrExportData exported{};
  CHECK(cudaMemPoolExportPointer(&exported, pooled));
  const char nothing = 0;
  send_descriptor(sockets[0], memory.descriptor, &nothing, 1);
  send_descriptor(sockets[0], pool_descriptor, &exported, sizeof exported);
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  int values[2] = {};
  CHECK(cudaMemcpy(&values[0], reinterpret_cast<void*>(mapped), sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&values[1], pooled, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(values[0] == 2 * 0x01010101 && values[1] == 4 * 0x01010101);
  std::printf("ok\n");
  return 0;
}

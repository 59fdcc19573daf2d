// A kernel that submits another, as the one does by which OpenCL enqueues kernels from kernels; its name tells that.
#include <hip/hip_runtime.h>

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>

extern "C" __global__ void __amd_rocclr_scheduler(amd_queue_t* queue, const unsigned* packet, unsigned long index) {
  const hsa_queue_t& ring = queue->hsa_queue;
  unsigned* slot = static_cast<unsigned*>(ring.base_address) + 16 * (index & (ring.size - 1));
  for (int i = 1; i < 16; ++i) slot[i] = packet[i];
  __hip_atomic_store(slot, packet[0], __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  __hip_atomic_store(&queue->write_dispatch_id, index + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  auto* doorbell = reinterpret_cast<amd_signal_t*>(ring.doorbell_signal.handle);
  auto* place = doorbell->kind == AMD_SIGNAL_KIND_USER ? reinterpret_cast<long*>(const_cast<int64_t*>(&doorbell->value))
                                                       : reinterpret_cast<long*>(const_cast<uint64_t*>(doorbell->hardware_doorbell_ptr));
  __hip_atomic_store(place, static_cast<long>(index), __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
extern "C" __global__ void target(unsigned* word) { *word += 1; }

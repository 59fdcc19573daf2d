// Copies memory on the capture library's own queue. Compiled once per target when the project is built.
// 256 work-items a group; each moves 16 bytes at a time, the last 15 bytes go one by one. Both addresses must
// be 16-byte aligned (regions and staging slots are page-aligned).
typedef unsigned int uint4 __attribute__((ext_vector_type(4)));

__attribute__((amdgpu_flat_work_group_size(256, 256)))
kernel void kerncap_copy(global const uint4* from, global uint4* to, unsigned long bytes, unsigned int groups) {
  const unsigned long words = bytes / 16;
  const unsigned long stride = (unsigned long)groups * 256;
  const unsigned long first = (unsigned long)__builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  for (unsigned long i = first; i < words; i += stride) to[i] = from[i];
  const unsigned long tail = words * 16 + first;
  if (tail < bytes) ((global unsigned char*)to)[tail] = ((global const unsigned char*)from)[tail];
}

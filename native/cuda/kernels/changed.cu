// Which chunks of two states of one piece of memory differ. Built by nvcc into changed.ptx, which is kept in the
// repository: a build of the package needs no nvcc, and the driver compiles PTX for every GPU.
//
//   nvcc -arch=compute_75 -ptx -O3 changed.cu -o changed.ptx
//
// `a`, `b`: the states, `bytes` long, both at multiples of 16. `chunk_bytes`: a multiple of 4096.
// `flags`: one word a chunk, set to 1 where any byte differs; never cleared.
extern "C" __global__ void kerncap_changed(const uint4* a, const uint4* b, unsigned long long bytes,
                                           unsigned long long chunk_bytes, unsigned* flags) {
  const unsigned long long whole = bytes / 16;
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (unsigned long long i = first; i < whole; i += step) {
    const uint4 left = a[i];
    const uint4 right = b[i];
    const unsigned differs = (left.x ^ right.x) | (left.y ^ right.y) | (left.z ^ right.z) | (left.w ^ right.w);
    if (differs != 0) flags[i * 16 / chunk_bytes] = 1;
  }
  if (first == 0) {
    for (unsigned long long i = whole * 16; i < bytes; ++i) {
      if (reinterpret_cast<const unsigned char*>(a)[i] != reinterpret_cast<const unsigned char*>(b)[i]) {
        flags[i / chunk_bytes] = 1;
      }
    }
  }
}

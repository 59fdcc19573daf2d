// Overwrite what one kernel leaves on a compute unit for the next one: LDS, vector registers, scalar registers, scratch memory.
// Waves have 64 work-items on every target (meson.build): those of 32 use a part of the same registers and scratch memory. Each
// wave sleeps some microseconds, so that none takes the place of another: all that fit at once have begun before one ends.
//
// A word is `pattern`, and where `mix` has bits, others from `seed` and the word's place.
static unsigned int word_at(unsigned int place, unsigned int pattern, unsigned int mix, unsigned int seed) {
  unsigned int hash = (place ^ seed) * 0x9E3779B9u;
  hash = (hash ^ hash >> 15) * 0x85EBCA6Bu;
  return pattern ^ ((hash ^ hash >> 13) & mix);
}

// All three kernels have the same arguments, so the replayer has one form of them.
// `lds` and `words`: all that a work-group may have.
__attribute__((amdgpu_flat_work_group_size(256, 256)))
kernel void kerncap_scrub_lds(local unsigned int* lds, unsigned int words, unsigned int pattern, unsigned int mix,
                              unsigned int seed) {
  const unsigned int first = __builtin_amdgcn_workgroup_id_x() * words;
  for (unsigned int i = __builtin_amdgcn_workitem_id_x(); i < words; i += 256) {
    lds[i] = word_at(first + i, pattern, mix, seed);
  }
  __builtin_amdgcn_s_sleep(127);
}

// Work-groups of one wave, as many as there is room for with so many registers. All registers of a work-item get one word, also
// the one that the word is in. Behind that the kernel does nothing, so the compiler only has to know how many there are.
#define FILL(move, file, last, word, kind) \
  __asm__ volatile(".set kerncap_i, 0\n .rept " #last " + 1\n " move " " file "[kerncap_i], %0\n" \
                   " .set kerncap_i, kerncap_i + 1\n .endr" : : kind(word) : file #last)

__attribute__((amdgpu_flat_work_group_size(64, 64)))
kernel void kerncap_scrub_registers(local unsigned int* lds, unsigned int words, unsigned int pattern, unsigned int mix,
                                    unsigned int seed) {
  const unsigned int place = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  const unsigned int word = word_at(place, pattern, mix, seed);
  __builtin_amdgcn_s_sleep(127);
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx9_4_generic__)
  FILL("v_accvgpr_write_b32", "a", 255, word, "v");
#endif
  FILL("v_mov_b32", "v", 255, word, "v");
}

// As many waves as the GPU holds, or work-groups of another kernel's shape: `words` of scratch memory of each work-item, and
// scalar registers. On GCN and CDNA as many of these as leave room for all waves.
#if defined(__GFX9__)
#define LAST_SCALAR 87
#else
#define LAST_SCALAR 105
#endif
#define FILL_SCALARS(last, word) FILL("s_mov_b32", "s", last, __builtin_amdgcn_readfirstlane(word), "s")

__attribute__((amdgpu_flat_work_group_size(1, 1024)))
kernel void kerncap_scrub_waves(local unsigned int* lds, unsigned int words, unsigned int pattern, unsigned int mix,
                                unsigned int seed) {
  const unsigned int group = __builtin_amdgcn_workgroup_id_x();
  const unsigned int place = group * 64 + __builtin_amdgcn_workitem_id_x();
  // The packet asks for more scratch memory than this array is; where the pointer comes from is hidden from the compiler.
  private unsigned int begin[4];
  volatile private unsigned int* scratch = begin;
  __asm__ volatile("" : "+v"(scratch));
  for (unsigned int i = 0; i < words; ++i) scratch[i] = word_at(place * words + i, pattern, mix, seed);
  __builtin_amdgcn_s_sleep(127);
  FILL_SCALARS(LAST_SCALAR, word_at(group, pattern, mix, seed));
}

// What the programs of this folder share: a call that fails ends the program, loudly.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const cudaError_t status_ = (call);                                                          \
    if (status_ != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (0)

// Ends the program with 1 when a result is wrong: a capture must not change what a program computes.
#define EXPECT(holds)                                                             \
  do {                                                                            \
    if (!(holds)) {                                                               \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #holds); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

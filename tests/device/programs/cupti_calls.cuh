// Calls of the CUPTI that a program has opened by itself.
#pragma once

#include <cupti.h>
#include <dlfcn.h>

#include "check.cuh"

inline void* g_cupti = nullptr;

inline void open_cupti(const char* path) {
  g_cupti = dlopen(path, RTLD_NOW);
  EXPECT(g_cupti != nullptr);
}

template <typename Function>
Function* find_cupti_call(const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(g_cupti, name));
  EXPECT(found != nullptr);
  return found;
}
#define CUPTI(name) find_cupti_call<decltype(name)>(#name)

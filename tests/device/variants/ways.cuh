// What variants of known_times.cu's kernel have in common. Each NS makes another code object; WAY says how it behaves.
#pragma once

#include "../programs/spin.cuh"

#ifndef NS
#define NS 200'000
#endif
#ifndef WAY
#define WAY 0
#endif

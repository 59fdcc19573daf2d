#define PERSISTING
#include "cached_reads.cu"

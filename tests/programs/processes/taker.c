/* Preloaded: takes the addresses KERNCAP_TEST_TAKE=BASE:BYTES (hexadecimal) before the program starts. With
   KERNCAP_TEST_TAKE_ONCE set, a program that started itself again is left alone. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((constructor)) static void take(void) {
  const char* text = getenv("KERNCAP_TEST_TAKE");
  unsigned long base, bytes;
  if (text == NULL || sscanf(text, "%lx:%lx", &base, &bytes) != 2) return;
  if (getenv("KERNCAP_TEST_TAKE_ONCE") != NULL && getenv("KERNCAP_REPLAY_ATTEMPT") != NULL) return;
  mmap((void*)base, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

// nvcc: -shared -Xcompiler -fPIC
// A library that loads, and has none of CUPTI's functions.
extern "C" int not_cupti() { return 0; }

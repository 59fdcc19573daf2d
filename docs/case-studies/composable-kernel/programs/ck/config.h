// Stands in for the file that Composable Kernel's own CMake project makes: the types and instructions in use.
#pragma once

#define CK_ENABLE_FP16
#define CK_ENABLE_FP32
#define CK_USE_XDL

// Mathematical functions of the device library in f32, within the bounds that OpenCL gives for them.
#include "ocml.hpp"

int main() { return check_functions<float>("ocml_f32"); }

// Mathematical functions of the device library in f64, within the bounds that OpenCL gives for them.
#include "ocml.hpp"

int main() { return check_functions<double>("ocml_f64"); }

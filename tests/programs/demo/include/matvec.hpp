// The demo program's one interface: y += A * x, row by row.
#pragma once

#include "shape.hpp"

// matrix: float[rows][columns]; vector: float[columns]; result: float[rows], added to. All device memory.
void add_matrix_vector(const float* matrix, const float* vector, float* result, Shape shape);

#pragma once
struct Shape {
  int rows;
  int columns;
};

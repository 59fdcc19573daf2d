#pragma once
#define SCALE_UNIT 2

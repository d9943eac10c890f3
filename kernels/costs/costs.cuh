// All costs that can be combined. A cost is a structure:
//     Distance    of two features, one of distances.cuh
//     prepare     what the threads of a block do together before features are made
//     feature     of a pixel of a tile
#pragma once
#include "costs/census.cuh"
#include "costs/grey.cuh"
#include "costs/sobel.cuh"

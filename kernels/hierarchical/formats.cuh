// All formats of messages and of data costs; a format is a struct.
//
// A vector over D disparities is padded to P labels, a multiple of 8. A word holds two of its
// values: label r (low) and its mirror image P - 1 - r (high). The forward scan of the lower
// envelope over the low values and its backward scan over the high ones are then one instruction,
// and the two meet once, in the middle. A chunk is four words, 8 labels.
//
// Types of a format:
//     Word        a word in registers; of a vector that is split over two lanes one value
//     Value       one of its values, as it is compared and written out
//     Running     the value that differences are added to
//     Parameter   slope and truncation
//     Sum         the format of data costs above level 0
//     Unit        the bytes that one thread loads or stores at once
// Constants:
//     UNITS_PER_CHUNK     units of 8 labels
//     WORD_REGISTERS      registers of a word
//     SIDES               1, or 2: the vector is split over two lanes
//     IS_DELTAS           memory holds differences of neighbouring labels
//     HAS_SIX_BITS        two chunks are packed together
//     IS_WHOLE            sums are the same in any order
//     IS_SCALED           memory holds multiples of one real factor (costs alone)
// The functions are arithmetic on words (add, subtract, least, normalise ...) and the way between
// memory and registers (load and store, or follow, expand and their inverses).
#pragma once
#include "hierarchical/formats/costs.cuh"
#include "hierarchical/formats/first_step.cuh"
#include "hierarchical/formats/fixed32.cuh"
#include "hierarchical/formats/float32.cuh"
#include "hierarchical/formats/float32_three_bytes.cuh"
#include "hierarchical/formats/int16.cuh"
#include "hierarchical/formats/int16_bytes.cuh"
#include "hierarchical/formats/int16_six_bits.cuh"

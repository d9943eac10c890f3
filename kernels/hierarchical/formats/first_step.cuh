// int16 messages of a smoothness cost whose first step, that of one label, costs less than the
// slope. They lie in memory and in registers as the format they are made of: neighbouring labels
// still differ by at most the slope.
#pragma once
#include "hierarchical/formats/int16_bytes.cuh"
#include "hierarchical/formats/int16_six_bits.cuh"

template <typename Format>
struct FirstStep : Format {};

using Int16FirstStep = FirstStep<Int16>;
using Int16BytesFirstStep = FirstStep<Int16Bytes>;
using Int16SixBitsFirstStep = FirstStep<Int16SixBits>;

template <typename Message>
constexpr bool HAS_FIRST_STEP = false;
template <typename Format>
constexpr bool HAS_FIRST_STEP<FirstStep<Format>> = true;

// The label of each pixel of the other image from the keys that were offered to it, for the
// left-right check.
#include "frame/right_labels.cuh"

// Also resets the keys for the next frame. -1 = none was offered. Thread = a pixel.
template <typename Key>
__global__ void take_right_labels(Key* keys, short* labels, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const Key key = keys[at];
    labels[at] = key == RightKey<Key>::NONE ? short(-1) : short(key & RightKey<Key>::LABEL_MASK);
    keys[at] = RightKey<Key>::NONE;
}

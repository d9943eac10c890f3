// How grey values and colours are read from the bytes of an image.
#pragma once
#include "device.cuh"

// How the bytes of an image are read; rows are tight.
enum PixelLayout {
    CHANNEL,      // one byte of each pixel is its grey value
    COLOUR,       // three colours of 8 bits, green in the second byte
    MOSAIC,       // one colour for each pixel
    WIDE,         // 16 bits; from here on values are scaled
    WIDE_MOSAIC,  // one colour of 16 bits for each pixel
    VALUES        // float32 grey values, which the device has made
};

struct Source {
    const uint8* bytes;
    void* grey;  // H x W, written
    int layout;
    int pixel_bytes;
    // CHANNEL: number of the byte that is taken. COLOUR: of the byte of red. MOSAIC: column (bit
    // 0) and row (bit 1) of the first red pixel. WIDE: number of the more significant byte.
    // WIDE_MOSAIC: as MOSAIC, and as WIDE in bit 2.
    int first;
};

// OpenCV's integer BT.601: 15 bits, rounded half up.
DEVICE int luma(int red, int green, int blue) {
    return (9798 * red + 19235 * green + 3735 * blue + (1 << 14)) >> 15;
}

// 16-bit values in either byte order.
struct WideSamples {
    const uint8* bytes;
    int upper;  // number of the more significant byte

    DEVICE uint32 operator[](int i) const {
        const uint8* const at = bytes + 2 * i;
        return uint32(at[upper]) << 8 | at[1 - upper];
    }
};

// OpenCV's bilinear demosaicing to grey in one step; a border pixel is its inner neighbour. Sums
// of 16 bits take all 32 bits.
template <typename Samples>
DEVICE uint32 demosaiced(const Samples& at, int x, int y, int width, int height, int red) {
    constexpr uint32 RED = 4899, GREEN = 9617, BLUE = 1868;  // 14 bits
    if (width < 3 || height < 3) return 0;
    x = min(max(x, 1), width - 2);
    y = min(max(y, 1), height - 2);
    const int i = y * width + x, above = i - width, below = i + width;
    const uint32 own = at[i], across = at[i - 1] + at[i + 1], along = at[above] + at[below];
    const uint32 diagonal = at[above - 1] + at[above + 1] + at[below - 1] + at[below + 1];
    const bool is_red_column = (x & 1) == (red & 1), is_red_row = (y & 1) == red >> 1;
    if (is_red_column != is_red_row)  // green
        return (across * (is_red_row ? RED : BLUE) + along * (is_red_row ? BLUE : RED)
                + own * 2 * GREEN + (1 << 14))
            >> 15;
    return (diagonal * (is_red_row ? BLUE : RED) + (across + along) * GREEN
            + own * 4 * (is_red_row ? RED : BLUE) + (1 << 15))
        >> 16;
}

DEVICE int value_at(const Source& source, int x, int y, int width, int height) {
    const uint8* const at = source.bytes + (size_t(y) * width + x) * source.pixel_bytes;
    const int first = source.first;
    switch (source.layout) {
        case COLOUR: return luma(at[first], at[1], at[2 - first]);
        case MOSAIC: return demosaiced(source.bytes, x, y, width, height, first);
        case WIDE: return WideSamples{at, first}[0];
        case WIDE_MOSAIC:
            return demosaiced(WideSamples{source.bytes, first >> 2}, x, y, width, height,
                              first & 3);
        default: return at[first];
    }
}

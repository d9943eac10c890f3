// A tile of the grey image with its halo, from which the feature of every cost is made.
#pragma once
#include "device.cuh"

// Pixels of a block, and its threads.
constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 16, THREADS = 256;

// Costs that can be combined at once.
constexpr int MAX_COSTS = 8;

struct FeatureSettings {
    float sobel_scale, sobel_cap;  // factor, and bound of the absolute result
};

struct FeatureLaunch {
    const void* grey[2];            // left and right, H x W: uint8, or float to be rounded
    void* features[MAX_COSTS][2];  // H x W, of each cost
    FeatureSettings settings;
    int width, height, halo;
    uint64* stamp;  // time at which the stage starts, ns; null = none
};

// Rounded half up to 8 bits; exact, as in whole numbers.
DEVICE uint8 rounded(uint8 value) { return value; }
DEVICE uint8 rounded(float value) {
    const float kept = fminf(fmaxf(value, 0.0f), 255.0f), below = floorf(kept);
    return uint8(int(below) + (kept - below >= 0.5f));
}

DEVICE uint8 cut_to_byte(int value) { return uint8(min(max(value, 0), 255)); }

// Borders are replicated.
struct GreyTile {
    uint8* pixels;  // [rows][columns]
    uint8* means;   // the same, of 3 x 3 pixels; there is none at the border of the tile
    int halo, rows, columns;

    DEVICE GreyTile(void* shared, int halo)
        : halo(halo), rows(TILE_HEIGHT + 2 * halo), columns(TILE_WIDTH + 2 * halo) {
        pixels = static_cast<uint8*>(shared);
        means = pixels + rows * columns;
    }
    template <typename Pixel>
    DEVICE void load(const Pixel* from, int width, int height) const {
        const int first_x = blockIdx.x * TILE_WIDTH - halo;
        const int first_y = blockIdx.y * TILE_HEIGHT - halo;
        for (int row = threadIdx.x / 32; row < rows; row += THREADS / 32) {
            const Pixel* const line = from + min(max(first_y + row, 0), height - 1) * width;
            for (int i = threadIdx.x % 32; i < columns; i += 32)
                pixels[row * columns + i] = rounded(line[min(max(first_x + i, 0), width - 1)]);
        }
    }
    // Rounded half up. By all threads of a block, each of four pixels side by side.
    DEVICE void fill_means() const {
        const int groups = columns / 4;
        for (int i = threadIdx.x; i < groups * (rows - 2); i += THREADS) {
            const int x = 1 + i % groups * 4 - halo, y = 1 + i / groups - halo;
            // Sums of a column, in 16 bits: of every other one from x - 1 on, and from x on.
            uint32 even[2] = {}, odd[2] = {};
#pragma unroll
            for (int row = -1; row <= 1; ++row) {
                uint32 words[2];
                bytes_at(pixels, x - 1, y + row, words);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    even[j] += words[j] & 0x00ff00ffu;
                    odd[j] += words[j] >> 8 & 0x00ff00ffu;
                }
            }
            const uint32 beside = __byte_perm(even[0], even[1], 0x5432);
            const uint32 nine[2] = {even[0] + odd[0] + beside,
                                    odd[0] + beside + __byte_perm(odd[0], odd[1], 0x5432)};
            uint8* const to = means + (y + halo) * columns + x + halo;
#pragma unroll
            for (int j = 0; j < 4; ++j)  // a ninth, exact; there are no ties
                to[j] = uint8(((nine[j % 2] >> 16 * (j / 2) & 0xffffu) + 4) * 7282 >> 16);
        }
    }
    // Of the pixel (x, y) of the tile; both may lie in the halo.
    DEVICE int at(const uint8* image, int x, int y) const {
        return image[(y + halo) * columns + x + halo];
    }
    DEVICE int at(int x, int y) const { return at(pixels, x, y); }
    // Pixels from (x, y) on, four in a word. The word after them is read, too.
    template <int COUNT>
    DEVICE void bytes_at(const uint8* image, int x, int y, uint32 (&found)[COUNT]) const {
        const int place = int(image - pixels) + (y + halo) * columns + x + halo;
        const uint32* const words = reinterpret_cast<const uint32*>(pixels) + place / 4;
        uint32 last = words[0];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const uint32 next = words[i + 1];
            found[i] = __funnelshift_r(last, next, 8 * (place % 4));
            last = next;
        }
    }
    DEVICE uint32 bytes_at(const uint8* image, int x, int y) const {
        uint32 found[1];
        bytes_at(image, x, y, found);
        return found[0];
    }
};

// A cost whose feature depends on pixels alone. PIXELS: side by side, which are found at once.
struct OfPixels {
    static constexpr int PIXELS = 1;
    static DEVICE void prepare(const GreyTile&, const FeatureSettings&) {}
};

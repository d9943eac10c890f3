// A tile of the grey image with its halo, from which the feature of every cost is made.
#pragma once
#include "device.cuh"

// Pixels of a block, and its threads.
constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 16, THREADS = 256;

// Costs that can be combined at once.
constexpr int MAX_COSTS = 8;

struct FeatureSettings {
    float sobel_scale, sobel_cap;  // factor, and bound of the absolute result
    int residual_radius;           // of the box
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
    int* sums;      // [rows][TILE_WIDTH], of the rows of a box
    int halo, rows, columns;

    DEVICE GreyTile(void* shared, int halo)
        : halo(halo), rows(TILE_HEIGHT + 2 * halo), columns(TILE_WIDTH + 2 * halo) {
        sums = static_cast<int*>(shared);
        pixels = reinterpret_cast<uint8*>(sums + rows * TILE_WIDTH);
        means = pixels + rows * columns;
    }
    template <typename Pixel>
    DEVICE void load(const Pixel* from, int width, int height) const {
        const int first_x = blockIdx.x * TILE_WIDTH - halo;
        const int first_y = blockIdx.y * TILE_HEIGHT - halo;
        for (int i = threadIdx.x; i < rows * columns; i += THREADS) {
            const int x = min(max(first_x + i % columns, 0), width - 1);
            const int y = min(max(first_y + i / columns, 0), height - 1);
            pixels[i] = rounded(from[y * width + x]);
        }
    }
    // Rounded half up. By all threads of a block.
    DEVICE void fill_means() const {
        for (int i = threadIdx.x; i < (rows - 2) * (columns - 2); i += THREADS) {
            const int x = 1 + i % (columns - 2) - halo, y = 1 + i / (columns - 2) - halo;
            int sum = 0;
#pragma unroll
            for (int j = 0; j < 9; ++j) sum += at(x + j % 3 - 1, y + j / 3 - 1);
            means[(y + halo) * columns + x + halo] = uint8((sum + 4) / 9);  // there are no ties
        }
    }
    // Of the pixel (x, y) of the tile; both may lie in the halo.
    DEVICE int at(const uint8* image, int x, int y) const {
        return image[(y + halo) * columns + x + halo];
    }
    DEVICE int at(int x, int y) const { return at(pixels, x, y); }
};

// A cost whose feature depends on pixels alone.
struct OfPixels {
    static DEVICE void prepare(const GreyTile&, const FeatureSettings&) {}
};

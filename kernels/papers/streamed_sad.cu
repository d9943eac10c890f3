// The data-streaming variants of stage sad: Pudpai, Kim & Liu, "Data Stream Optimization of Sum
// of Absolute Differences Algorithm on a Graphics Processing Unit". Every SAD is summed by
// itself, one thread for all labels of a window; the variants differ in where pixels come from.
#include "sad/sad.cuh"

// Sections V, VI.A (centralized) and VI.B (distributed) of the paper.
enum Streaming { GLOBAL, SHARED_ONE, SHARED_ALL };

// The matched images in 8 bits, kept as Pixel: uint8, or int as in the paper's first version.
template <typename Image, typename Pixel>
__global__ void cut_to_8bit(const Image* left, const Image* right, Pixel* left_8bit,
                            Pixel* right_8bit, int count, int offset, uint64* stamp) {
    stamp_time(stamp);
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    if constexpr (sizeof(Image) == 1) {
        left_8bit[at] = Pixel(left[at]);
        right_8bit[at] = Pixel(right[at]);
    } else {
        left_8bit[at] = Pixel(rounded(left[at], offset));
        right_8bit[at] = Pixel(rounded(right[at], offset));
    }
}

// The rows that the windows of a block cover, as a ring: row y of the image is row y % window
// here, so that going down one row loads one row. Left row, then right row, Pixel each.
template <typename Pixel, Streaming STREAMING> struct Ring {
    Pixel* rows;
    int left_size, row_size;  // pixels

    DEVICE Ring(Pixel* memory, const Windows& p)
        : rows(memory), left_size(blockDim.x + p.window - 1),
          row_size(2 * left_size + p.disparities - 1) {}

    // Row y, its first left pixel being x; pixels outside the image are those of its border.
    __device__ void load(const Windows& p, int x, int y) {
        const int first = STREAMING == SHARED_ALL ? threadIdx.x : 0;
        const int step = STREAMING == SHARED_ALL ? blockDim.x : 1;
        if (STREAMING == SHARED_ONE && threadIdx.x != 0) return;
        const size_t line = size_t(y) * p.width;
        const Pixel* const left = static_cast<const Pixel*>(p.left) + line;
        const Pixel* const right = static_cast<const Pixel*>(p.right) + line;
        Pixel* const to = rows + y % p.window * row_size;
        const int right_x = x - p.min_disparity - (p.disparities - 1) - left_size;
        for (int i = first; i < left_size; i += step)
            to[i] = left[min(max(x + i, 0), p.width - 1)];
        for (int i = left_size + first; i < row_size; i += step)
            to[i] = right[min(max(right_x + i, 0), p.width - 1)];
    }
};

// Block = blockDim.x windows in x, going down p.rows rows. WINDOW = side that the sums are
// unrolled for, 0 = a loop.
template <typename Pixel, int WINDOW, Streaming STREAMING>
__global__ void stream_windows(const __grid_constant__ Windows p) {
    extern __shared__ uint4 shared[];
    if (p.rows == 0) return;
    const int window = WINDOW ? WINDOW : p.window, radius = window / 2;
    const int x_block = p.x_begin + blockIdx.x * blockDim.x, x = x_block + threadIdx.x;
    const int y_first = p.y_begin + blockIdx.y * p.rows, y_end = min(y_first + p.rows, p.y_end);
    Ring<Pixel, STREAMING> ring(reinterpret_cast<Pixel*>(shared), p);

    // The SAD of a label of this thread's window in row y.
    const auto sad_of = [&](int label, int y) {
        const int column = STREAMING == GLOBAL
            ? x - radius - p.min_disparity - label
            : ring.left_size + int(threadIdx.x) + p.disparities - 1 - label;
        const int own = STREAMING == GLOBAL ? x - radius : int(threadIdx.x);
        int sum = 0;
#pragma unroll WINDOW ? WINDOW : 1
        for (int row = 0; row < window; ++row) {
            const int line = y - radius + row;
            const Pixel *left, *right;
            if constexpr (STREAMING == GLOBAL) {
                left = static_cast<const Pixel*>(p.left) + size_t(line) * p.width;
                right = static_cast<const Pixel*>(p.right) + size_t(line) * p.width;
            } else {
                left = right = ring.rows + line % window * ring.row_size;
            }
#pragma unroll WINDOW ? WINDOW : 1
            for (int i = 0; i < window; ++i)
                sum += abs(int(left[own + i]) - int(right[column + i]));
        }
        return sum;
    };

    for (int y = y_first; y < y_end; ++y) {
        if constexpr (STREAMING != GLOBAL) {
            __syncthreads();  // the row that is replaced has been read
            for (int row = y == y_first ? y - radius : y + radius; row <= y + radius; ++row)
                ring.load(p, x_block - radius, row);
            __syncthreads();
        }
        if (x >= p.x_end) continue;
        const int pixel = y * p.width + x;
        int best = NO_SECOND, found = -2, before = 0, after = 0, last = 0;
        for (int label = 0; label < p.disparities; ++label) {
            const int sad = sad_of(label, y);
            if (label == found + 1) after = sad;
            if (sad < best) {
                best = sad;
                found = label;
                before = last;
            }
            last = sad;
            if (p.right_keys != nullptr)
                atomicMin(&p.right_keys[pixel - p.min_disparity - label],
                          uint32(sad) << LABEL_BITS | uint32(label));
        }
        p.label[pixel] = short(found);
        if (p.fraction != nullptr)
            p.fraction[pixel] = found > 0 && found < p.disparities - 1
                ? whole_sixteenths(before, best, after)
                : 0;
        if (p.second == nullptr) continue;
        int second = NO_SECOND;
        for (int label = 0; label < p.disparities; ++label)
            if (abs(label - found) > 1) second = min(second, sad_of(label, y));
        p.best[pixel] = best;
        p.second[pixel] = second;
    }
}

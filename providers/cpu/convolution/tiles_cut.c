/* How a convolution by tiles is cut into units of work. */
#include "convolution/tiles.h"

enum { BLOCK_BYTES = 200 * 1024 };

/* Of a core with AVX-512: a unit of work, and what it reads that the one before did not. */
#define UNIT_NS 100.0
#define UNIT_BYTES_PER_NS 60.0

void tiles_find_cut(int64_t tiles, int64_t tile_bytes, int64_t panels, int64_t depth, uint32_t threads, tiles_cut *out)
{
    int64_t fit = BLOCK_BYTES / (tile_bytes > 0 ? tile_bytes : 1), least, most;
    double tile_ns = TILE_NS + (double)depth * DEPTH_NS, panel_bytes = (double)(depth * TILE_WIDTH) * sizeof(float);

    tiles = tiles > 0 ? tiles : 1;
    panels = panels > 0 ? panels : 1;
    fit = fit < 4 ? 4 : fit;
    least = (tiles + fit - 1) / fit;
    most = threads > 1 ? least + 4 * (int64_t)threads : least;
    *out = (tiles_cut){ .ns = -1 };
    for (int64_t b = least; b <= most && b <= tiles; b++) {
        int64_t block = (tiles + b - 1) / b, blocks = (tiles + block - 1) / block;

        for (int64_t c = 1; c <= panels && c <= (threads > 1 ? 4 * (int64_t)threads : 1); c++) {
            int64_t chunk = (panels + c - 1) / c, chunks = (panels + chunk - 1) / chunk;
            int64_t rounds = (blocks * chunks + threads - 1) / threads;
            double reads = (double)(block * tile_bytes) + (double)chunk * panel_bytes;
            double ns = (double)rounds * (UNIT_NS + reads / UNIT_BYTES_PER_NS + (double)(block * chunk) * tile_ns);

            if (out->ns < 0 || ns < out->ns)
                *out = (tiles_cut){ block, chunk, ns };
        }
    }
}

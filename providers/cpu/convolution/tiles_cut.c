/* Division of a tiled convolution into units of work. */
#include "cpu/convolution/tiles.h"
#include "inlay/check.h"

enum { BLOCK_BYTES = 200 * 1024 };

/* On a core with AVX-512: the overhead of a unit, and the bandwidth for data that the previous unit did not read. */
#define UNIT_NS 100.0
#define UNIT_BYTES_PER_NS 60.0

void tiles_find_cut(int64_t tiles, int64_t tile_bytes, double panels, int64_t depth, uint32_t threads, tiles_cut *out)
{
    const int64_t count = panels > 1 ? (int64_t)panels + (panels > (double)(int64_t)panels) : 1;
    int64_t fit = BLOCK_BYTES / (tile_bytes > 0 ? tile_bytes : 1), min_blocks, max_blocks;
    double tile_ns = TILE_NS + (double)depth * DEPTH_NS, panel_bytes = (double)(depth * TILE_WIDTH) * sizeof(float);
    INLAY_CHECK(threads > 0);

    tiles = tiles > 0 ? tiles : 1;
    panels = panels > 0 ? panels : 1;
    fit = fit < 4 ? 4 : fit;
    min_blocks = (tiles + fit - 1) / fit;
    max_blocks = threads > 1 ? min_blocks + 4 * (int64_t)threads : min_blocks;
    *out = (tiles_cut){ .ns = -1 };
    for (int64_t block_count = min_blocks; block_count <= max_blocks && block_count <= tiles; block_count++) {
        int64_t block = (tiles + block_count - 1) / block_count, blocks = (tiles + block - 1) / block;

        for (int64_t chunk_count = 1; chunk_count <= count && chunk_count <= (threads > 1 ? 4 * (int64_t)threads : 1);
             chunk_count++) {
            int64_t chunk = (count + chunk_count - 1) / chunk_count, chunks = (count + chunk - 1) / chunk;
            double width = (double)chunk < panels ? (double)chunk : panels;
            int64_t rounds = (blocks * chunks + threads - 1) / threads;
            double reads = (double)(block * tile_bytes) + width * panel_bytes;
            double ns = (double)rounds * (UNIT_NS + reads / UNIT_BYTES_PER_NS + (double)block * width * tile_ns);

            if (out->ns < 0 || ns < out->ns)
                *out = (tiles_cut){ block, chunk, ns };
        }
    }
}

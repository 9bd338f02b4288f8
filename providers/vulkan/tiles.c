/* Tiles of workgroups, which product.c chooses from: their sizes, and the time that each is expected to take. Times
 * that tile_times.c has measured are kept in the host's cache folder. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <math.h>

/* One row is a sum over all of B, whose loads are what takes time: many invocations share k. Two chunks ahead hide more
 * of the latency of loads and take more registers. Invocations that load their own eight columns of B have no barriers;
 * each load is of 16 bytes if B is float16. Both are only used on
 * devices whose times were measured. */
enum { SMALL_TILES = 2 }; /* the first of at most 32 x 32; CPU drivers compile larger ones slowly */
static const vulkan_tiling tiles[] = {
    { 8, 8, 16, 16, 1, 8, 1, 1 },     { 4, 4, 16, 16, 1, 16, 1, 0.95 }, { 4, 4, 8, 8, 4, 8, 1, 0.5 },
    { 8, 1, 1, 32, 8, 8, 1, 0.25 },   { 4, 1, 1, 32, 8, 8, 1, 0.125 },  { 1, 1, 1, 32, 8, 16, 1, 0.03125 },
    { 4, 4, 16, 16, 1, 16, 2, 0.94 }, { 4, 4, 8, 8, 4, 8, 2, 0.49 },    { 1, 1, 1, 32, 8, 16, 2, 0.03 },
    { 1, 8, 1, 4, 64, 4, 0, 0.02 },
};
static const vulkan_tiling matrices[] = {
    { 4, 2, 2, 4, 1, 4, 1, 1 },    { 4, 2, 2, 4, 1, 2, 1, 0.8 },  { 2, 1, 2, 4, 1, 4, 1, 0.7 },
    { 1, 2, 2, 1, 4, 2, 1, 0.35 }, { 4, 2, 2, 4, 1, 2, 2, 0.79 }, { 2, 1, 2, 4, 1, 4, 2, 0.69 },
    { 1, 2, 2, 1, 4, 2, 2, 0.34 },
};
_Static_assert(KIT_COUNT(tiles) <= VULKAN_MAX_TILES && KIT_COUNT(matrices) <= VULKAN_MAX_TILES, "VULKAN_MAX_TILES");

vulkan_tile_kind vulkan_tile_kind_of(gpu_shader shader)
{
    return shader == SHADER_matrices                                    ? VULKAN_TILES_HALF
           : shader == SHADER_integers_matrices                         ? VULKAN_TILES_BYTE_MATRICES
           : shader == SHADER_integers || shader == SHADER_integers_dot ? VULKAN_TILES_BYTES
                                                                        : VULKAN_TILES_FLOAT;
}

bool vulkan_are_matrices(vulkan_tile_kind kind)
{
    return kind == VULKAN_TILES_HALF || kind == VULKAN_TILES_BYTE_MATRICES;
}

uint32_t vulkan_matrix_size(const gpu_facts *facts, vulkan_tile_kind kind)
{
    return kind == VULKAN_TILES_HALF            ? facts->matrix_size
           : kind == VULKAN_TILES_BYTE_MATRICES ? facts->byte_matrix_size
                                                : 1;
}

uint32_t vulkan_matrix_depth(const gpu_facts *facts, vulkan_tile_kind kind)
{
    return kind == VULKAN_TILES_HALF            ? facts->matrix_depth
           : kind == VULKAN_TILES_BYTE_MATRICES ? facts->byte_matrix_depth
                                                : 1;
}

int64_t vulkan_tile_height(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile)
{
    return (int64_t)tile->rows * tile->side_rows * vulkan_matrix_size(facts, kind);
}

int64_t vulkan_tile_width(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile)
{
    return (int64_t)tile->columns * tile->side_columns * vulkan_matrix_size(facts, kind);
}

int64_t vulkan_tile_chunk(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile)
{
    return (int64_t)tile->steps * tile->slices * (kind == VULKAN_TILES_BYTES ? 4 : vulkan_matrix_depth(facts, kind));
}

/* Shared memory of a tile of matrices: its lines go along k or across, of bytes always along k, and each has 16 bytes
 * more. Bytes also have sums of rows and columns. */
static uint64_t matrix_bytes(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile)
{
    const uint64_t chunk = (uint64_t)vulkan_tile_chunk(facts, kind, tile);
    const uint64_t sides[] = { (uint64_t)vulkan_tile_height(facts, kind, tile),
                               (uint64_t)vulkan_tile_width(facts, kind, tile) };
    uint64_t bytes = 0;

    for (size_t i = 0; i < KIT_COUNT(sides); i++)
        bytes += kind == VULKAN_TILES_BYTE_MATRICES ? sides[i] * (chunk + 16 + sizeof(int32_t))
                                                    : sides[i] * chunk * 2 + (sides[i] > chunk ? sides[i] : chunk) * 16;
    return bytes;
}

uint32_t vulkan_list_tiles(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling **out)
{
    const uint32_t first = facts->is_cpu ? SMALL_TILES : 0;
    uint32_t count = 0;

    for (const vulkan_tiling *tile = matrices; vulkan_are_matrices(kind) && tile < matrices + KIT_COUNT(matrices);
         tile++)
        if (matrix_bytes(facts, kind, tile) <= facts->max_shared_bytes)
            out[count++] = tile;
    for (const vulkan_tiling *tile = tiles + first; !vulkan_are_matrices(kind) && tile < tiles + KIT_COUNT(tiles);
         tile++)
        if (tile->ahead == 1 || (!facts->is_cpu && (tile->ahead > 0 || kind == VULKAN_TILES_FLOAT)))
            out[count++] = tile;
    INLAY_CHECK(count > 0);
    return count;
}

/* The time of `count` tiles for each part of k. Without measured times it is relative, for a device of about 128
 * cores. */
static double expected_time(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tiling *tile,
                            const vulkan_tile_time *time, double count, uint32_t parts, const vulkan_product *product)
{
    const double area =
        (double)(vulkan_tile_height(facts, kind, tile) * vulkan_tile_width(facts, kind, tile)) / tile->speed;
    const double chunks =
        (double)product->taps * ceil((double)(product->k / parts) / (double)vulkan_tile_chunk(facts, kind, tile));

    return time == NULL ? ceil(count / 128) * area : chunks * fmax(time->few, count * parts * time->many);
}

/* Whether invocations may load four or eight neighbouring columns of B on their own. */
static bool fits(const vulkan_tiling *tile, const vulkan_product *product)
{
    return tile->ahead > 0 || (product->packed && product->blocks == NULL && !product->windows &&
                               (product->b.dtype == INLAY_FLOAT || product->b.dtype == INLAY_FLOAT16));
}

/* Whether k can be divided: into equal parts, each aligned as wide loads need it; the parts are the first batches. */
static bool divides(const vulkan_product *product, double elements, uint32_t parts)
{
    return parts == 1 ||
           (!product->integers && product->blocks == NULL && product->batch[0] == 1 && product->sibling_count == 0 &&
            product->k % (8 * parts) == 0 && elements * parts <= INT32_MAX);
}

const vulkan_tiling *vulkan_choose_tile(const gpu_facts *facts, vulkan_tile_kind kind, const vulkan_tile_time *times,
                                        const vulkan_product *product, uint32_t *out_parts, double *out_time)
{
    const double rows = (double)product->line * (double)product->lines,
                 batches = (double)product->batch[0] * (double)product->batch[1] * (double)product->batch[2];
    const double elements = rows * (double)product->n * batches;
    const vulkan_tiling *list[VULKAN_MAX_TILES], *best = NULL;
    const uint32_t count = vulkan_list_tiles(facts, kind, list);

    for (uint32_t i = 0; i < count; i++) {
        const double across = ceil((double)product->n / (double)vulkan_tile_width(facts, kind, list[i])),
                     down = ceil(rows / (double)vulkan_tile_height(facts, kind, list[i]));

        for (uint32_t parts = 1; fits(list[i], product) && parts <= (times != NULL ? VULKAN_MAX_PARTS : 1); parts++) {
            const double sums = parts > 1 ? times[count].few + elements * parts * times[count].many : 0;
            const double time = sums + expected_time(facts, kind, list[i], times != NULL ? &times[i] : NULL,
                                                     across * down * batches, parts, product);

            if (!divides(product, elements, parts) || (best != NULL && time >= *out_time))
                continue;
            best = list[i];
            *out_parts = parts;
            *out_time = time;
        }
    }
    return best;
}

vulkan_device_key vulkan_device_key_of(const gpu_device *device)
{
    const gpu_facts *facts = &device->facts;
    vulkan_device_key key = { .shaders = gpu_shaders_hash(),
                              .vendor = facts->vendor,
                              .driver_version = facts->driver_version,
                              .is_cpu = facts->is_cpu };

    memcpy(key.uuid, facts->pipeline_uuid, sizeof key.uuid);
    (void)snprintf(key.name, sizeof key.name, "%s", facts->name);
    return key;
}

const char *vulkan_tile_kind_name(vulkan_tile_kind kind)
{
    static const char *const names[] = { [VULKAN_TILES_FLOAT] = "tiles-float",
                                         [VULKAN_TILES_BYTES] = "tiles-bytes",
                                         [VULKAN_TILES_HALF] = "tiles-half",
                                         [VULKAN_TILES_BYTE_MATRICES] = "tiles-byte-matrices" };

    _Static_assert(KIT_COUNT(names) == VULKAN_TILE_KINDS, "a kind without a name");
    return names[kind];
}

/* What a file of times is for: the device, its driver, the shaders, and the tiles. */
struct identity {
    vulkan_device_key device;
    vulkan_tiling tiles[VULKAN_MAX_TILES];
    uint32_t size, depth; /* of matrices; 1: none */
};

static struct identity identity_of(const gpu_device *device, vulkan_tile_kind kind, char name[64])
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    const uint32_t count = vulkan_list_tiles(&device->facts, kind, list);
    struct identity me = { .device = vulkan_device_key_of(device),
                           .size = vulkan_matrix_size(&device->facts, kind),
                           .depth = vulkan_matrix_depth(&device->facts, kind) };

    for (uint32_t i = 0; i < count; i++)
        me.tiles[i] = *list[i];
    gpu_cache_file_name(device, vulkan_tile_kind_name(kind), name);
    return me;
}

bool vulkan_load_tile_times(const char *cache_dir, const gpu_device *device, vulkan_tile_kind kind,
                            vulkan_tile_time *out)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    const uint32_t count = vulkan_list_tiles(&device->facts, kind, list);
    char name[64];
    const struct identity me = identity_of(device, kind, name);
    size_t bytes;
    vulkan_tile_time *kept = kit_kept_load(cache_dir, name, &me, sizeof me, &bytes);
    bool complete = kept != NULL && bytes == (count + 1) * sizeof *kept;

    for (uint32_t i = 0; complete && i <= count; i++)
        complete = vulkan_is_tile_time(&kept[i]);
    if (complete)
        memcpy(out, kept, bytes);
    free(kept);
    return complete;
}

void vulkan_save_tile_times(const char *cache_dir, const gpu_device *device, vulkan_tile_kind kind,
                            const vulkan_tile_time *times)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    char name[64];
    const struct identity me = identity_of(device, kind, name);

    kit_kept_save(cache_dir, name, &me, sizeof me, times,
                  (vulkan_list_tiles(&device->facts, kind, list) + 1) * sizeof *times);
}

bool vulkan_is_tile_time(const vulkan_tile_time *time)
{
    return time->few > 0 && time->many > 0 && isfinite(time->few) && isfinite(time->many);
}

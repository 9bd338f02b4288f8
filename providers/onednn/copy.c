/* Changes of layout between row-major tensors and tensors of kernels, with channels last or in blocks. A layout is a
 * sum of one offset for each axis; blocked axes have tables of these offsets. The two innermost loops run over the axes
 * that are contiguous in the source and in the target, in tiles that stay in the nearest cache. */
#include "inlay/check.h"
#include "onednn/provider.h"

enum { TILE = 16, GRAIN = 16384 /* elements of a range */ };

/* A layout read from its numbers, see library_layout_words(). */
struct numbers {
    int64_t words[LIBRARY_LAYOUT_WORDS];
    uint32_t rank, blocks;
    dnnl_data_type_t type;
};

static bool read_numbers(library_const_layout layout, struct numbers *out)
{
    if (library_layout_words(layout, out->words) == 0)
        return false;
    out->rank = (uint32_t)out->words[0];
    out->type = (dnnl_data_type_t)out->words[1];
    out->blocks = (uint32_t)out->words[2];
    return true;
}

static int64_t dim_of(const struct numbers *numbers, uint32_t axis)
{
    return numbers->words[3 + axis];
}

static int64_t padded_of(const struct numbers *numbers, uint32_t axis)
{
    return numbers->words[3 + numbers->rank + axis];
}

static int64_t block_size(const struct numbers *numbers, uint32_t block)
{
    return numbers->words[3 + 3 * numbers->rank + block];
}

static uint32_t block_axis(const struct numbers *numbers, uint32_t block)
{
    return (uint32_t)numbers->words[3 + 3 * numbers->rank + numbers->blocks + block];
}

static bool is_blocked(const struct numbers *numbers, uint32_t axis)
{
    for (uint32_t block = 0; block < numbers->blocks; block++)
        if (block_axis(numbers, block) == axis)
            return true;
    return false;
}

/* The offset that an index along an axis adds, in elements. */
static int64_t offset_of(const struct numbers *numbers, uint32_t axis, int64_t index)
{
    int64_t offset = 0, step = 1;

    for (uint32_t block = numbers->blocks; block-- > 0; step *= block_size(numbers, block))
        if (block_axis(numbers, block) == axis) {
            offset += index % block_size(numbers, block) * step;
            index /= block_size(numbers, block);
        }
    return offset + index * numbers->words[3 + 2 * numbers->rank + axis];
}

static int64_t *make_table(const struct numbers *numbers, uint32_t axis, int64_t *memory)
{
    for (int64_t i = 0; i < dim_of(numbers, axis); i++)
        memory[i] = offset_of(numbers, axis, i);
    return memory;
}

/* Appends an axis. Neighbours without blocks are merged where the strides of both sides allow it. */
static void append_axis(struct copy *copy, const copy_axis *axis)
{
    copy_axis *last = copy->rank > 0 ? &copy->axes[copy->rank - 1] : NULL;

    if (axis->size == 1)
        return;
    if (last != NULL && last->from_table == NULL && last->to_table == NULL && axis->from_table == NULL &&
        axis->to_table == NULL && last->from_step == axis->from_step * axis->size &&
        last->to_step == axis->to_step * axis->size) {
        last->size *= axis->size;
        last->from_step = axis->from_step;
        last->to_step = axis->to_step;
        return;
    }
    copy->axes[copy->rank++] = *axis;
}

/* Makes the axis with the smallest step the last one of the first `count`. */
static void move_nearest(struct copy *copy, uint32_t count, bool of_target)
{
    uint32_t nearest = 0;
    copy_axis axis;

    for (uint32_t d = 1; d < count; d++)
        if (of_target ? copy->axes[d].to_step <= copy->axes[nearest].to_step
                      : copy->axes[d].from_step <= copy->axes[nearest].from_step)
            nearest = d;
    axis = copy->axes[nearest];
    for (uint32_t d = nearest; d + 1 < count; d++)
        copy->axes[d] = copy->axes[d + 1];
    copy->axes[count - 1] = axis;
}

bool copy_prepare(library_const_layout from, library_const_layout to, struct copy *out)
{
    struct numbers source, target;
    uint64_t table_count = 0;
    bool padded = false;
    int64_t *memory;

    *out = (struct copy){ .rank = 0 };
    if (!read_numbers(from, &source) || !read_numbers(to, &target) || source.rank != target.rank ||
        source.type != dnnl_f32 || (target.type != dnnl_f32 && target.type != dnnl_bf16))
        return false;
    for (uint32_t d = 0; d < source.rank; d++) {
        table_count +=
            (uint64_t)dim_of(&source, d) * ((is_blocked(&source, d) ? 1 : 0) + (is_blocked(&target, d) ? 1 : 0));
        padded |= padded_of(&target, d) != dim_of(&target, d);
    }
    out->tables = memory = malloc((table_count + 1) * sizeof *memory);
    if (memory == NULL)
        return false;
    for (uint32_t d = 0; d < source.rank; d++) {
        copy_axis axis = { .size = dim_of(&source, d),
                           .from_step = offset_of(&source, d, 1),
                           .to_step = offset_of(&target, d, 1) };

        if (is_blocked(&source, d)) {
            axis.from_table = make_table(&source, d, memory);
            memory += axis.size;
        }
        if (is_blocked(&target, d)) {
            axis.to_table = make_table(&target, d, memory);
            memory += axis.size;
        }
        append_axis(out, &axis);
    }
    while (out->rank < 2) {
        out->axes[out->rank] = (out->rank == 0) ? (copy_axis){ .size = 1 } : out->axes[0];
        out->axes[0] = (copy_axis){ .size = 1 };
        out->rank++;
    }
    move_nearest(out, out->rank, true);
    move_nearest(out, out->rank - 1, false);
    out->halves = target.type == dnnl_bf16;
    out->clear_bytes = padded ? dnnl_memory_desc_get_size(to) : 0;
    INLAY_CHECK(out->rank <= LIBRARY_MAX_RANK);
    return true;
}

/* Rounds to the nearest bfloat16, ties to even; NaN stays NaN. */
static inline uint16_t half_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (uint16_t)(bits >> 16 | 0x40)
                                              : (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Copies a tile: outer_count steps along the axis that is contiguous in the source, with inner_count elements each. */
static inline __attribute__((always_inline)) void copy_tile(const float *from, void *to, const int64_t *outer_from,
                                                            const int64_t *outer_to, int64_t outer_count,
                                                            const int64_t *inner_from, const int64_t *inner_to,
                                                            int64_t inner_count, bool halves)
{
    for (int64_t i = 0; i < outer_count; i++)
        for (int64_t k = 0; k < inner_count; k++) {
            const float value = from[outer_from[i] + inner_from[k]];

            if (halves)
                ((uint16_t *)to)[outer_to[i] + inner_to[k]] = half_of(value);
            else
                ((float *)to)[outer_to[i] + inner_to[k]] = value;
        }
}

/* Tiles of floats whose rows are contiguous in the target. */
KIT_MULTIVERSION
static void copy_rows(const float *from, float *to, const int64_t *outer_from, int64_t outer_to, int64_t outer_count,
                      int64_t inner_from)
{
    for (int64_t i = 0; i < outer_count; i++)
        for (int64_t k = 0; k < TILE; k++)
            to[i * outer_to + k] = from[outer_from[i] + k * inner_from];
}

/* Offsets of up to TILE indices of an axis from `first`. */
static int64_t tile_offsets(const copy_axis *axis, int64_t first, int64_t *from, int64_t *to)
{
    const int64_t count = axis->size - first < TILE ? axis->size - first : TILE;

    for (int64_t i = 0; i < count; i++) {
        from[i] = axis->from_table != NULL ? axis->from_table[first + i] : (first + i) * axis->from_step;
        to[i] = axis->to_table != NULL ? axis->to_table[first + i] : (first + i) * axis->to_step;
    }
    return count;
}

static bool is_run(const int64_t *offsets, int64_t count, int64_t step)
{
    for (int64_t i = 1; i < count; i++)
        if (offsets[i] - offsets[i - 1] != step)
            return false;
    return true;
}

struct job {
    const struct copy *copy;
    const float *from;
    void *to;
    int64_t inner_tiles; /* of the last axis */
};

/* A unit is a tile of the last axis, with all of the axis before it, at one position of the others. */
static inlay_status copy_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *job = user;
    const struct copy *copy = job->copy;
    const copy_axis *inner = &copy->axes[copy->rank - 1], *outer = inner - 1;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t inner_from[TILE], inner_to[TILE], from = 0, to = 0, rest = unit / job->inner_tiles;
        const int64_t count = tile_offsets(inner, unit % job->inner_tiles * TILE, inner_from, inner_to);
        const bool runs = count == TILE && !copy->halves && is_run(inner_to, count, 1) &&
                          is_run(inner_from, count, inner->from_step) && outer->to_table == NULL;

        for (uint32_t d = copy->rank - 2; d-- > 0; rest /= copy->axes[d].size) {
            const copy_axis *axis = &copy->axes[d];
            const int64_t index = rest % axis->size;

            from += axis->from_table != NULL ? axis->from_table[index] : index * axis->from_step;
            to += axis->to_table != NULL ? axis->to_table[index] : index * axis->to_step;
        }
        for (int64_t first = 0; first < outer->size; first += TILE) {
            int64_t outer_from[TILE], outer_to[TILE];
            const int64_t rows = tile_offsets(outer, first, outer_from, outer_to);

            if (runs)
                copy_rows(job->from + from + inner_from[0], (float *)job->to + to + inner_to[0] + outer_to[0],
                          outer_from, outer->to_step, rows, inner->from_step);
            else if (copy->halves)
                copy_tile(job->from + from, (uint16_t *)job->to + to, outer_from, outer_to, rows, inner_from, inner_to,
                          count, true);
            else
                copy_tile(job->from + from, (float *)job->to + to, outer_from, outer_to, rows, inner_from, inner_to,
                          count, false);
        }
    }
    return INLAY_OK;
}

inlay_status copy_run(const onednn_state *state, const struct copy *copy, inlay_run *run, const float *from, void *to)
{
    const copy_axis *inner = &copy->axes[copy->rank - 1];
    struct job job = { .copy = copy, .from = from, .to = to, .inner_tiles = (inner->size + TILE - 1) / TILE };
    int64_t units = job.inner_tiles;
    const int64_t per = copy->axes[copy->rank - 2].size * TILE;

    INLAY_CHECK(copy->rank >= 2);
    for (uint32_t d = 0; d + 2 < copy->rank; d++)
        units *= copy->axes[d].size;
    if (copy->clear_bytes > 0)
        memset(to, 0, copy->clear_bytes);
    return state->host->parallel_for(state->host->ctx, run, units, GRAIN / per + 1, copy_units, &job);
}

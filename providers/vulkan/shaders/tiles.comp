#version 460
#extension GL_GOOGLE_include_directive : require
#include "program.glsl"

// The same products as product.comp, for GPUs. A workgroup computes a tile of ROWS * SIDE_ROWS rows and COLUMNS *
// SIDE_COLUMNS columns: chunks of A and B along k are copied to shared memory, and each invocation multiplies ROWS rows
// by COLUMNS columns. SLICES groups of invocations have the same elements and divide the k of a chunk; their sums are
// added at the end, in order. The loads of the next AHEAD chunks are issued before the current one is multiplied. AHEAD
// 0: nothing is shared until then, and each invocation loads its own columns of B, eight neighbours at once.
layout(constant_id = ID_OWN) const uint ROWS = 4u;
layout(constant_id = ID_OWN + 1) const uint COLUMNS = 4u;
layout(constant_id = ID_OWN + 2) const uint SIDE_ROWS = 16u;
layout(constant_id = ID_OWN + 3) const uint HOW = 0u; // PRODUCT_
layout(constant_id = ID_OWN + 4) const uint A_BYTES = 4u;
layout(constant_id = ID_OWN + 5) const uint B_BYTES = 4u;
layout(constant_id = ID_OWN + 6) const uint SIDE_COLUMNS = 16u;
layout(constant_id = ID_OWN + 7) const uint SLICES = 1u;
layout(constant_id = ID_OWN + 8) const uint STEPS = 16u; // of a slice in a chunk
layout(constant_id = ID_OWN + 10) const uint AHEAD = 1u;
#include "product.glsl"

// An element of a tile is one k of a row or column, or four of 8 bits.
#ifdef BYTES
#define SUM int
#define UNIT uint
#define UNITS uvec4
#define PACK 4u
int own_terms(uint column);
#else
#define SUM float
#define UNIT float
#define UNITS vec4
#define PACK 1u
#endif

const uint SIDES = SIDE_ROWS * SIDE_COLUMNS, THREADS = SIDES * SLICES, CHUNK = STEPS * SLICES;
const uint CHUNK_K = CHUNK * PACK;
const uint TILE_ROWS = ROWS * SIDE_ROWS, TILE_COLUMNS = COLUMNS * SIDE_COLUMNS;
// The distance of lines is a multiple of 4, and 4 more than needed: this avoids most conflicts between banks.
const uint A_LINE = (TILE_ROWS + 7u) / 4u * 4u, B_LINE = (TILE_COLUMNS + 7u) / 4u * 4u, B_TILE = CHUNK * A_LINE;
const uint SETS = AHEAD == 0u ? 1u : AHEAD; // of registers
const uint A_LOADS = (TILE_ROWS * CHUNK + THREADS - 1u) / THREADS;
const uint B_LOADS = (TILE_COLUMNS * CHUNK + THREADS - 1u) / THREADS;

// The tile of A, then that of B; later the sums of all invocations.
shared UNITS tile[AHEAD == 0u ? COLUMNS * THREADS / 4u : CHUNK * (A_LINE + B_LINE) / 4u];
#define TILE(i) tile[(i) / 4u][(i) % 4u]

#include "workgroup.glsl"
#ifdef BYTES
#include "bytes.glsl"
#else
float multiply_add(float a, float b, float sum) { return fma(a, b, sum); }
float unit_of_a(uint64_t row, uint s, bool inside)
{
    return HAS(PRODUCT_PADDED) && !inside ? 0.0 : load_a(unpackUint2x32(row), s * a_step);
}
float unit_of_b(uint first, uint s, uint column)
{
    return load_b(unpackUint2x32(b_base),
                  first + s * b_step +
                      (HAS(PRODUCT_PACKED) ? column : min(first_column + column, columns - 1u) * b_column));
}
#endif

#ifdef BYTES
const uint A_WIDES = 0u, B_WIDES = 0u;
#else
// Loads of four elements of an invocation.
const uint A_WIDES = HAS(PRODUCT_A_WIDE) ? (A_LOADS + 3u) / 4u : 0u;
const uint B_WIDES = HAS(PRODUCT_B_WIDE) ? (B_LOADS + 3u) / 4u : 0u;
#endif
const uint A_SINGLES = A_WIDES > 0u ? 0u : A_LOADS, B_SINGLES = B_WIDES > 0u ? 0u : B_LOADS;
const uint A_UNITS = (HAS(PRODUCT_A_BY_ROWS) ? TILE_ROWS : CHUNK) / 4u; // in a line
const uint B_UNITS = (HAS(PRODUCT_B_BY_K) ? CHUNK : TILE_COLUMNS) / 4u;

SUM acc[ROWS * COLUMNS];
UNIT next_a[SETS * A_LOADS], next_b[SETS * B_LOADS];
UNITS wide_a[SETS * ((A_LOADS + 3u) / 4u)], wide_b[SETS * ((B_LOADS + 3u) / 4u)];
uint me;
uint64_t row_at;    // address of the row of A whose elements this invocation loads, if loads go along rows
bool inside = true; // that row has an element at this tap

void fetch(uint set, uint tap, uint k)
{
    if (HAS(PRODUCT_A_BY_ROWS) && k == 0u) {
        uint at_row;

        inside = find_row(min(first_row + me % TILE_ROWS, rows - 1u), tap, at_row);
        row_at = a_base + uint64_t(at_row) * A_BYTES;
    }
#ifndef BYTES
    [[unroll]] for (uint j = 0u; j < A_WIDES; j++) {
        const uint e = me + j * THREADS, unit = e % A_UNITS * 4u, line = e / A_UNITS;
        const uint s = k + (HAS(PRODUCT_A_BY_ROWS) ? line : unit);

        wide_a[set * A_WIDES + j] = vec4(0.0);
        if (s < k_size && e < TILE_ROWS * CHUNK / 4u)
            wide_a[set * A_WIDES + j] = load_four(unpackUint2x32(a_base),
                                  HAS(PRODUCT_A_BY_ROWS) ? min(first_row + unit, rows - 4u) + s * a_step
                                                         : min(first_row + line, rows - 1u) * a_row + s,
                                  A_BYTES);
    }
    [[unroll]] for (uint j = 0u; j < B_WIDES; j++) {
        const uint e = me + j * THREADS, unit = e % B_UNITS * 4u, line = e / B_UNITS;
        const uint s = k + (HAS(PRODUCT_B_BY_K) ? unit : line);

        wide_b[set * B_WIDES + j] = vec4(0.0);
        if (s < k_size && e < TILE_COLUMNS * CHUNK / 4u)
            wide_b[set * B_WIDES + j] = load_four(unpackUint2x32(b_base),
                                  panel_at + tap * b_tap +
                                      (HAS(PRODUCT_B_BY_K) ? s + min(first_column + line, columns - 1u) * b_column
                                       : HAS(PRODUCT_PACKED) ? s * b_step + unit
                                                             : s * b_step + min(first_column + unit, columns - 4u)),
                                  B_BYTES);
    }
#endif
    [[unroll]] for (uint j = 0u; j < A_SINGLES; j++) {
        const uint e = me + j * THREADS, s = k + (HAS(PRODUCT_A_BY_ROWS) ? e / TILE_ROWS : e % CHUNK) * PACK;
        const uint64_t row = HAS(PRODUCT_A_BY_ROWS)
                                 ? row_at
                                 : a_base + uint64_t(min(first_row + e / CHUNK, rows - 1u) * a_row) * A_BYTES;

        next_a[set * A_LOADS + j] = UNIT(0);
        if (s < k_size && e < TILE_ROWS * CHUNK)
            next_a[set * A_LOADS + j] = unit_of_a(row, s, inside);
    }
    [[unroll]] for (uint j = 0u; j < B_SINGLES; j++) {
        const uint e = me + j * THREADS, s = k + (HAS(PRODUCT_B_BY_K) ? e % CHUNK : e / TILE_COLUMNS) * PACK;
        const uint column = HAS(PRODUCT_B_BY_K) ? e / CHUNK : e % TILE_COLUMNS;

        next_b[set * B_LOADS + j] = UNIT(0);
        if (s < k_size && e < TILE_COLUMNS * CHUNK)
            next_b[set * B_LOADS + j] = unit_of_b(panel_at + tap * b_tap, s, column);
    }
}

void keep(uint set)
{
    [[unroll]] for (uint j = 0u; j < A_WIDES; j++) {
        const uint e = me + j * THREADS, unit = e % A_UNITS * 4u, line = e / A_UNITS;

        if (e < TILE_ROWS * CHUNK / 4u) {
            if (HAS(PRODUCT_A_BY_ROWS))
                tile[(line * A_LINE + unit) / 4u] = wide_a[set * A_WIDES + j];
            else
                [[unroll]] for (uint i = 0u; i < 4u; i++)
                    TILE((unit + i) * A_LINE + line) = wide_a[set * A_WIDES + j][i];
        }
    }
    [[unroll]] for (uint j = 0u; j < B_WIDES; j++) {
        const uint e = me + j * THREADS, unit = e % B_UNITS * 4u, line = e / B_UNITS;

        if (e < TILE_COLUMNS * CHUNK / 4u) {
            if (!HAS(PRODUCT_B_BY_K))
                tile[(B_TILE + line * B_LINE + unit) / 4u] = wide_b[set * B_WIDES + j];
            else
                [[unroll]] for (uint i = 0u; i < 4u; i++)
                    TILE(B_TILE + (unit + i) * B_LINE + line) = wide_b[set * B_WIDES + j][i];
        }
    }
    [[unroll]] for (uint j = 0u; j < A_SINGLES; j++) {
        const uint e = me + j * THREADS;

        if (e < TILE_ROWS * CHUNK)
            TILE(HAS(PRODUCT_A_BY_ROWS) ? e / TILE_ROWS * A_LINE + e % TILE_ROWS : e % CHUNK * A_LINE + e / CHUNK) =
                next_a[set * A_LOADS + j];
    }
    [[unroll]] for (uint j = 0u; j < B_SINGLES; j++) {
        const uint e = me + j * THREADS;

        if (e < TILE_COLUMNS * CHUNK)
            TILE(B_TILE + (HAS(PRODUCT_B_BY_K) ? e % CHUNK * B_LINE + e / CHUNK
                                               : e / TILE_COLUMNS * B_LINE + e % TILE_COLUMNS)) = next_b[set * B_LOADS + j];
    }
}

#ifndef BYTES
// Adds the products of a slice of k: those of one row of A and of COLUMNS neighbours in a line of a panel. The loads of
// STEPS lines are issued before the first is multiplied.
void multiply_lines(uint slice, uint v)
{
    const uint first = panel_at + v * COLUMNS, row = min(first_row, rows - 1u) * a_row;
    const uvec2 a = unpackUint2x32(a_base), b = unpackUint2x32(b_base);

    [[dont_unroll]] for (uint k = slice; k < k_size; k += CHUNK) {
        float x[STEPS];
        vec4 line[2u * STEPS];

        [[unroll]] for (uint s = 0u; s < STEPS; s++) {
            const uint at_k = k + s * SLICES;

            x[s] = 0.0;
            line[2u * s] = line[2u * s + 1u] = vec4(0.0);
            if (at_k < k_size) {
                x[s] = load_a(a, row + at_k * a_step);
                load_eight(b, first + at_k * b_step, B_BYTES, line[2u * s], line[2u * s + 1u]);
            }
        }
        [[unroll]] for (uint s = 0u; s < STEPS; s++)
            [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
                acc[j] = fma(x[s], line[2u * s + j / 4u][j % 4u], acc[j]);
    }
}
#endif

// Row or column i of the invocation at `own` of `side` in its tile: in groups of four neighbours, which are one load.
uint position(uint i, uint own, uint side, const uint count)
{
    return AHEAD == 0u ? own * count + i : count < 4u ? i * side + own : i / 4u * 4u * side + own * 4u + i % 4u;
}

void main()
{
    find_tile();
    me = gl_LocalInvocationID.x;
    // Neighbours write neighbouring elements.
    const uint part = me % SIDES, slice = me / SIDES;
    const bool along_rows = HAS(PRODUCT_OUT_BY_ROWS);
    // 32 neighbours have 4 rows and 8 columns, or 8 and 4, where the tile is so large: they read few different units.
    const uint across = along_rows ? SIDE_ROWS : SIDE_COLUMNS, along = along_rows ? SIDE_COLUMNS : SIDE_ROWS;
    const bool in_blocks = across % 8u == 0u && along % 4u == 0u;
    const uint x = in_blocks ? part / 32u % (across / 8u) * 8u + part % 8u : part % across;
    const uint y = in_blocks ? part / 32u / (across / 8u) * 4u + part / 8u % 4u : part / across;
    const uint u = along_rows ? x : y, v = along_rows ? y : x;
    const uint chunks = count_chunks();

#ifdef BYTES
    int row_sums[ROWS], column_sums[COLUMNS];

    [[unroll]] for (uint i = 0u; i < ROWS; i++)
        row_sums[i] = 0;
    [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
        column_sums[j] = 0;
#endif
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
        acc[i] = SUM(0);
#ifndef BYTES
    if (AHEAD == 0u)
        multiply_lines(slice, v);
#endif
    [[unroll]] for (uint set = 0u; set < AHEAD; set++)
        fetch_next(set);
    [[dont_unroll]] for (uint chunk = 0u; AHEAD > 0u && chunk < chunks; chunk += SETS)
        [[unroll]] for (uint set = 0u; set < AHEAD; set++)
            if (AHEAD == 1u || chunk + set < chunks) {
                keep(set);
                barrier();
                fetch_next(set);
                [[unroll]] for (uint s = 0u; s < STEPS; s++) {
                    const uint at_a = (slice * STEPS + s) * A_LINE, at_b = B_TILE + (slice * STEPS + s) * B_LINE;
                    UNIT a[ROWS], b[COLUMNS];

                    if (ROWS < 4u)
                        [[unroll]] for (uint i = 0u; i < ROWS; i++)
                            a[i] = TILE(at_a + position(i, u, SIDE_ROWS, ROWS));
                    else
                        [[unroll]] for (uint i = 0u; i < ROWS; i += 4u) {
                            const UNITS x = tile[(at_a + position(i, u, SIDE_ROWS, ROWS)) / 4u];

                            a[i] = x.x, a[i + 1u] = x.y, a[i + 2u] = x.z, a[i + 3u] = x.w;
                        }
                    if (COLUMNS < 4u)
                        [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
                            b[j] = TILE(at_b + position(j, v, SIDE_COLUMNS, COLUMNS));
                    else
                        [[unroll]] for (uint j = 0u; j < COLUMNS; j += 4u) {
                            const UNITS x = tile[(at_b + position(j, v, SIDE_COLUMNS, COLUMNS)) / 4u];

                            b[j] = x.x, b[j + 1u] = x.y, b[j + 2u] = x.z, b[j + 3u] = x.w;
                        }
                    [[unroll]] for (uint i = 0u; i < ROWS; i++)
                        [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
                            acc[i * COLUMNS + j] = multiply_add(a[i], b[j], acc[i * COLUMNS + j]);
#ifdef BYTES
                    [[unroll]] for (uint i = 0u; HAS_ZB && i < ROWS; i++)
                        row_sums[i] += dot_of(a[i], ONES);
                    [[unroll]] for (uint j = 0u; HAS_ZA && j < COLUMNS; j++)
                        column_sums[j] += dot_of(b[j], ONES);
#endif
                }
                barrier();
            }
#ifdef BYTES
    [[unroll]] for (uint j = 0u; (HAS_ZA || HAS_ZB) && j < COLUMNS; j++) {
        const uint column = min(first_column + position(j, v, SIDE_COLUMNS, COLUMNS), columns - 1u);
        const int zero = HAS_ZB ? zero_of_b(group_column + column) : 0;

        [[unroll]] for (uint i = 0u; i < ROWS; i++)
            acc[i * COLUMNS + j] -= zero * row_sums[i] + zero_of_a() * column_sums[j];
    }
#endif

    // One row at a time goes through shared memory, where the slices meet: the epilogue is compiled ROWS times, not
    // once for each element.
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        const uint row = first_row + position(i, u, SIDE_ROWS, ROWS);

        if (SLICES > 1u && i > 0u)
            barrier();
        [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
            TILE(j * THREADS + me) = UNIT(acc[i * COLUMNS + j]);
        if (SLICES > 1u)
            barrier();
        [[dont_unroll]] for (uint j = slice; j < COLUMNS; j += SLICES) {
            const uint column = first_column + position(j, v, SIDE_COLUMNS, COLUMNS);
            SUM sum = SUM(0);

            [[unroll]] for (uint t = 0u; t < SLICES; t++)
                sum += SUM(TILE(j * THREADS + t * SIDES + part));
            finish_sum(row, column, sum);
        }
    }
}

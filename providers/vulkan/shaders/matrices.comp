#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require // gpu_matrix.c turns it into VK_KHR_cooperative_matrix
#ifdef BYTES
#extension GL_NV_integer_cooperative_matrix : require
#endif
#include "program.glsl"

// The multiplications of tiles.comp on cooperative matrices, of float16 with sums in float, or of 8-bit integers (BYTES)
// with sums in int32: a subgroup multiplies SIZE x DEPTH by DEPTH x SIZE elements at once. A subgroup has ROWS x COLUMNS such results, a workgroup SIDE_ROWS x
// SIDE_COLUMNS subgroups, and SLICES times as many that divide the k of a chunk. Shared memory has the tiles in units
// of eight elements: along the axis in which they are contiguous in device memory, or along k (BYTES).
layout(constant_id = ID_OWN) const uint ROWS = 4u;
layout(constant_id = ID_OWN + 1) const uint COLUMNS = 2u;
layout(constant_id = ID_OWN + 2) const uint SIDE_ROWS = 2u;
layout(constant_id = ID_OWN + 3) const uint HOW = 0u; // PRODUCT_
layout(constant_id = ID_OWN + 4) const uint SIZE = 16u;
layout(constant_id = ID_OWN + 5) const uint SUBGROUP = 32u;
layout(constant_id = ID_OWN + 6) const uint SIDE_COLUMNS = 4u;
layout(constant_id = ID_OWN + 7) const uint SLICES = 1u;
layout(constant_id = ID_OWN + 8) const uint STEPS = 2u;
layout(constant_id = ID_OWN + 9) const uint DEPTH = 16u;
layout(constant_id = ID_OWN + 10) const uint AHEAD = 1u;
#include "product.glsl"
#ifdef BYTES
#define A_BYTES 1u
#define B_BYTES 1u
#define SUM int
#define PACK 4u
#define UNIT uvec2
#define WORDS 2u // of a unit
#define matrix_a icoopmatNV<8, gl_ScopeSubgroup, SIZE, DEPTH>
#define matrix_b icoopmatNV<8, gl_ScopeSubgroup, DEPTH, SIZE>
#define sums_of_k icoopmatNV<32, gl_ScopeSubgroup, SIZE, SIZE>
const bool A_BY_ROWS = false, B_BY_K = true;
int own_terms(uint column);
#else
#define A_BYTES 2u
#define B_BYTES 2u
#define SUM float
#define PACK 1u
#define UNIT uvec4
#define WORDS 4u
#define matrix_a fcoopmatNV<16, gl_ScopeSubgroup, SIZE, DEPTH>
#define matrix_b fcoopmatNV<16, gl_ScopeSubgroup, DEPTH, SIZE>
#define sums_of_k fcoopmatNV<32, gl_ScopeSubgroup, SIZE, SIZE>
const bool A_BY_ROWS = HAS(PRODUCT_A_BY_ROWS), B_BY_K = HAS(PRODUCT_B_BY_K);
#endif

const uint SIDES = SIDE_ROWS * SIDE_COLUMNS, THREADS = SIDES * SLICES * SUBGROUP, CHUNK = DEPTH * STEPS * SLICES;
const uint CHUNK_K = CHUNK;
const uint TILE_ROWS = ROWS * SIDE_ROWS * SIZE, TILE_COLUMNS = COLUMNS * SIDE_COLUMNS * SIZE;
// Units in a line of a tile, and lines; 16 bytes more avoid conflicts between banks.
const uint A_UNITS = (A_BY_ROWS ? TILE_ROWS : CHUNK) / 8u, A_LINES = A_BY_ROWS ? CHUNK : TILE_ROWS;
const uint B_UNITS = (B_BY_K ? CHUNK : TILE_COLUMNS) / 8u, B_LINES = B_BY_K ? TILE_COLUMNS : CHUNK;
const uint A_PITCH = A_UNITS + 4u / WORDS, B_PITCH = B_UNITS + 4u / WORDS;
const uint A_LOADS = (A_UNITS * A_LINES + THREADS - 1u) / THREADS;
const uint B_LOADS = (B_UNITS * B_LINES + THREADS - 1u) / THREADS;

// The tile of A, then that of B; later a result of each subgroup.
const uint A_TILE = A_LINES * A_PITCH, TILE_UNITS = A_TILE + B_LINES * B_PITCH;
const uint RESULTS = SIDES * SLICES * SIZE * SIZE / WORDS;
shared UNIT tile[TILE_UNITS > RESULTS ? TILE_UNITS : RESULTS];

#include "workgroup.glsl"

UNIT next_a[AHEAD * A_LOADS], next_b[AHEAD * B_LOADS];
uint me;

#ifdef BYTES
#include "bytes.glsl"
shared int sums[TILE_ROWS + TILE_COLUMNS]; // of the rows of A, and of the columns of B

uint64_t row_at[A_LOADS]; // address of the row of a unit of A
bool inside[A_LOADS];     // the row has an element at this tap
int row_sums[A_LOADS], column_sums[B_LOADS];

// Line and unit of number e of a tile: neighbouring invocations load neighbouring elements.
uvec2 place_a(uint e)
{
    return HAS(PRODUCT_A_BY_ROWS) ? uvec2(e % A_LINES, e / A_LINES) : uvec2(e / A_UNITS, e % A_UNITS);
}
uvec2 place_b(uint e)
{
    return HAS(PRODUCT_B_BY_K) ? uvec2(e / B_UNITS, e % B_UNITS) : uvec2(e % B_LINES, e / B_LINES);
}

// The sum of four signed bytes.
int sum_of(uint four)
{
    const uint moved = four ^ 0x80808080u, pairs = (moved & 0xff00ffu) + (moved >> 8u & 0xff00ffu);

    return int((pairs & 0xffffu) + (pairs >> 16u)) - 512;
}

void fetch(uint set, uint tap, uint k)
{
    [[unroll]] for (uint j = 0u; j < A_LOADS; j++) {
        const uint e = me + j * THREADS, s = k + place_a(e).y * 8u;

        if (k == 0u) {
            uint at_row;

            inside[j] = find_row(min(first_row + place_a(e).x, rows - 1u), tap, at_row);
            row_at[j] = a_base + uint64_t(at_row);
        }
        next_a[set * A_LOADS + j] = uvec2(0u);
        [[unroll]] for (uint i = 0u; i < 2u; i++)
            if (e < A_LINES * A_UNITS && s + 4u * i < k_size)
                next_a[set * A_LOADS + j][i] = unit_of_a(row_at[j], s + 4u * i, inside[j]);
        row_sums[j] += HAS_ZB ? sum_of(next_a[set * A_LOADS + j].x) + sum_of(next_a[set * A_LOADS + j].y) : 0;
    }
    [[unroll]] for (uint j = 0u; j < B_LOADS; j++) {
        const uint e = me + j * THREADS, s = k + place_b(e).y * 8u;

        next_b[set * B_LOADS + j] = uvec2(0u);
        [[unroll]] for (uint i = 0u; i < 2u; i++)
            if (e < B_LINES * B_UNITS && s + 4u * i < k_size)
                next_b[set * B_LOADS + j][i] = unit_of_b(panel_at + tap * b_tap, s + 4u * i, place_b(e).x);
        column_sums[j] += HAS_ZA ? sum_of(next_b[set * B_LOADS + j].x) + sum_of(next_b[set * B_LOADS + j].y) : 0;
    }
}

void clear_sums()
{
    [[unroll]] for (uint j = 0u; j < A_LOADS; j++)
        row_sums[j] = 0;
    [[unroll]] for (uint j = 0u; j < B_LOADS; j++)
        column_sums[j] = 0;
    [[dont_unroll]] for (uint i = me; i < TILE_ROWS + TILE_COLUMNS; i += THREADS)
        sums[i] = 0;
}

// Adds what the invocations have loaded.
void share_sums()
{
    [[unroll]] for (uint j = 0u; HAS_ZB && j < A_LOADS; j++)
        if (me + j * THREADS < A_LINES * A_UNITS)
            atomicAdd(sums[place_a(me + j * THREADS).x], row_sums[j]);
    [[unroll]] for (uint j = 0u; HAS_ZA && j < B_LOADS; j++)
        if (me + j * THREADS < B_LINES * B_UNITS)
            atomicAdd(sums[TILE_ROWS + place_b(me + j * THREADS).x], column_sums[j]);
    barrier();
}

int terms_of_zeros(uint row, uint column)
{
    return (HAS_ZB ? zero_of_b(group_column + min(column, columns - 1u)) * sums[row - first_row] : 0) +
           (HAS_ZA ? zero_of_a() * sums[TILE_ROWS + column - first_column] : 0);
}
#else
uvec2 place_a(uint e) { return uvec2(e / A_UNITS, e % A_UNITS); }
uvec2 place_b(uint e) { return uvec2(e / B_UNITS, e % B_UNITS); }
uint row_at[8]; // elements from a_base to the rows of this invocation's unit of A, if units go along rows
bool inside[8]; // the row has an element at this tap

uint packed_pair(float x, float y) { return packFloat2x16(f16vec2(float16_t(x), float16_t(y))); }
uvec4 packed_unit(float x[8])
{
    return uvec4(packed_pair(x[0], x[1]), packed_pair(x[2], x[3]), packed_pair(x[4], x[5]), packed_pair(x[6], x[7]));
}

// Unit j of this invocation at element k of a tap. Elements beyond K are 0.
uvec4 unit_of_a(uint j, uint k)
{
    const uint e = me + j * THREADS, unit = e % A_UNITS, line = e / A_UNITS;
    const uint s = k + (A_BY_ROWS ? line : unit * 8u);
    float x[8];

    if (line >= A_LINES || s >= k_size)
        return uvec4(0u);
    if (HAS(PRODUCT_A_WIDE)) {
        const uint row = A_BY_ROWS ? min(first_row + unit * 8u, rows - 8u) : min(first_row + line, rows - 1u);

        return U32x4(unpackUint2x32(a_base)).v[(row * a_row + s * a_step) / 8u];
    }
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        x[i] = 0.0;
        if (A_BY_ROWS ? !HAS(PRODUCT_PADDED) || inside[i] : s + i < k_size)
            x[i] = load_a(unpackUint2x32(a_base),
                          A_BY_ROWS ? row_at[i] + s * a_step
                                    : min(first_row + line, rows - 1u) * a_row + (s + i) * a_step);
    }
    return packed_unit(x);
}

uvec4 unit_of_b(uint j, uint tap, uint k)
{
    const uint e = me + j * THREADS, unit = e % B_UNITS, line = e / B_UNITS;
    const uint s = k + (B_BY_K ? unit * 8u : line), base = panel_at + tap * b_tap;
    const uint column = B_BY_K ? line : unit * 8u;
    float x[8];

    if (line >= B_LINES || s >= k_size)
        return uvec4(0u);
    if (HAS(PRODUCT_B_WIDE)) {
        const uint from = HAS(PRODUCT_PACKED) ? column
                          : B_BY_K            ? min(first_column + column, columns - 1u) * b_column
                                              : min(first_column + column, columns - 8u);

        return U32x4(unpackUint2x32(b_base)).v[(base + s * b_step + from) / 8u];
    }
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        const uint c = HAS(PRODUCT_PACKED) ? column + i : min(first_column + column + (B_BY_K ? 0u : i), columns - 1u);

        x[i] = 0.0;
        if (!B_BY_K || s + i < k_size)
            x[i] = load_b(unpackUint2x32(b_base), base + (s + (B_BY_K ? i : 0u)) * b_step + c * b_column);
    }
    return packed_unit(x);
}

void fetch(uint set, uint tap, uint k)
{
    if (A_BY_ROWS && !HAS(PRODUCT_A_WIDE) && k == 0u)
        [[unroll]] for (uint i = 0u; i < 8u; i++)
            inside[i] = find_row(min(first_row + me % A_UNITS * 8u + i, rows - 1u), tap, row_at[i]);
    [[unroll]] for (uint j = 0u; j < A_LOADS; j++)
        next_a[set * A_LOADS + j] = unit_of_a(j, k);
    [[unroll]] for (uint j = 0u; j < B_LOADS; j++)
        next_b[set * B_LOADS + j] = unit_of_b(j, tap, k);
}
#endif

void keep(uint set)
{
    [[unroll]] for (uint j = 0u; j < A_LOADS; j++) {
        const uint e = me + j * THREADS;

        if (e < A_LINES * A_UNITS)
            tile[place_a(e).x * A_PITCH + place_a(e).y] = next_a[set * A_LOADS + j];
    }
    [[unroll]] for (uint j = 0u; j < B_LOADS; j++) {
        const uint e = me + j * THREADS;

        if (e < B_LINES * B_UNITS)
            tile[A_TILE + place_b(e).x * B_PITCH + place_b(e).y] = next_b[set * B_LOADS + j];
    }
}

void wait_for_slices()
{
    if (SLICES > 1u)
        barrier();
    else
        subgroupBarrier();
}

void main()
{
    find_tile();
    me = gl_LocalInvocationID.x;

    const uint group = me / SUBGROUP, lane = me % SUBGROUP, part = group % SIDES, slice = group / SIDES;
    const uint own_row = part / SIDE_COLUMNS * ROWS * SIZE, own_column = part % SIDE_COLUMNS * COLUMNS * SIZE;
    sums_of_k acc[ROWS * COLUMNS];
    const uint chunks = count_chunks();

    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
        acc[i] = sums_of_k(SUM(0));
#ifdef BYTES
    clear_sums();
#endif
    [[unroll]] for (uint set = 0u; set < AHEAD; set++)
        fetch_next(set);
    [[dont_unroll]] for (uint chunk = 0u; chunk < chunks; chunk += AHEAD)
        [[unroll]] for (uint set = 0u; set < AHEAD; set++)
            if (AHEAD == 1u || chunk + set < chunks) {
                keep(set);
                barrier();
                fetch_next(set);
                [[unroll]] for (uint s = 0u; s < STEPS; s++) {
                    const uint depth = (slice * STEPS + s) * DEPTH;
                    matrix_a a[ROWS];
                    matrix_b b[COLUMNS];

                    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
                        const uint row = own_row + i * SIZE;

                        if (A_BY_ROWS)
                            coopMatLoadNV(a[i], tile, depth * A_PITCH + row / 8u, A_PITCH, true);
                        else
                            coopMatLoadNV(a[i], tile, row * A_PITCH + depth / 8u, A_PITCH, false);
                    }
                    [[unroll]] for (uint j = 0u; j < COLUMNS; j++) {
                        const uint column = own_column + j * SIZE;

                        if (B_BY_K)
                            coopMatLoadNV(b[j], tile, A_TILE + column * B_PITCH + depth / 8u, B_PITCH, true);
                        else
                            coopMatLoadNV(b[j], tile, A_TILE + depth * B_PITCH + column / 8u, B_PITCH, false);
                    }
                    [[unroll]] for (uint i = 0u; i < ROWS; i++)
                        [[unroll]] for (uint j = 0u; j < COLUMNS; j++)
                            acc[i * COLUMNS + j] = coopMatMulAddNV(a[i], b[j], acc[i * COLUMNS + j]);
                }
                barrier();
            }

#ifdef BYTES
    share_sums();
#endif
    // One matrix of each subgroup at a time goes through shared memory, where the slices meet.
    [[unroll]] for (uint m = 0u; m < ROWS * COLUMNS; m++) {
        if (m > 0u)
            wait_for_slices();
        if (HAS(PRODUCT_OUT_BY_ROWS)) // neighbours write neighbouring elements
            coopMatStoreNV(acc[m], tile, group * SIZE * SIZE / WORDS, SIZE / WORDS, true);
        else
            coopMatStoreNV(acc[m], tile, group * SIZE * SIZE / WORDS, SIZE / WORDS, false);
        wait_for_slices();
        [[dont_unroll]] for (uint e = slice * SUBGROUP + lane; e < SIZE * SIZE; e += SLICES * SUBGROUP) {
            const bool along_rows = HAS(PRODUCT_OUT_BY_ROWS);
            const uint row = first_row + own_row + m / COLUMNS * SIZE + (along_rows ? e % SIZE : e / SIZE);
            const uint column = first_column + own_column + m % COLUMNS * SIZE + (along_rows ? e / SIZE : e % SIZE);
            SUM sum = SUM(0);

            [[unroll]] for (uint t = 0u; t < SLICES; t++) {
                const uint bits = tile[((t * SIDES + part) * SIZE * SIZE + e) / WORDS][e % WORDS];

#ifdef BYTES
                sum += int(bits);
#else
                sum += uintBitsToFloat(bits);
#endif
            }
#ifdef BYTES
            sum -= terms_of_zeros(row, column);
#endif
            finish_sum(row, column, sum);
        }
    }
}

#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "program.glsl"

// C[row, column] = sum over k of A[row, k] * B[k, column], in batches. Rows of a convolution are pixels, its columns
// are channels. LANES neighbours share a strip of ROWS rows and have COLUMNS columns each. All of them read the same
// elements of A, so any layout of A is cheap; elements of B are contiguous. A CPU driver may execute subgroup-uniform
// loads after a loop has ended, or after a return, until the end of the body. Loops therefore test their condition at
// the end, and invocations beyond the work repeat a part of it.
layout(constant_id = ID_OWN) const uint ROWS = 8u;
layout(constant_id = ID_OWN + 1) const uint COLUMNS = 2u;
layout(constant_id = ID_OWN + 2) const uint LANES = 8u;
layout(constant_id = ID_OWN + 3) const uint HOW = 0u; // PRODUCT_
layout(constant_id = ID_OWN + 4) const uint A_BYTES = 4u;
layout(constant_id = ID_OWN + 5) const uint B_BYTES = 4u;
#include "product.glsl"
#define STEPS 8u
#ifdef SHUFFLES
#define POINTERS 1u // each lane loads the elements of one row, and all lanes read them from there
#else
#define POINTERS ROWS
#endif

float acc[16 * 4], results[16 * 4];
uint64_t row_at[16]; // addresses
bool inside[16];     // the row has an element at this tap
uint column_at[4];
uint lane, out_push = PUSH_OUT;
uint b_first = 0u; // element of B that the address of a panel belongs to, if elements have no addresses (B_BYTES 0)
bool is_lane[16]; // lane == i; set once before the loops, so that compilers see that the elements are constant

float a_at(uint r, uint64_t ahead, uint s)
{
    const float x = load_a(unpackUint2x32(row_at[r] + ahead), s * word(A_STEP));

    return HAS(PRODUCT_PADDED) && !inside[r] ? 0.0 : x;
}

// Element s of column t of B. PRODUCT_LANE_BY_LANE is for drivers on which loads of one address are cheap and
// neighbouring loads are combined: all lanes load the elements of all lanes one after the other, and each selects its
// own.
float b_at(uint64_t b, uint k, uint s, uint t)
{
    float x;

    if (B_BYTES == 0u)
        return load_b(unpackUint2x32(b), b_first + (k + s) * word(B_STEP) + column_at[t]);
    if (!HAS(PRODUCT_LANE_BY_LANE))
        return load_b(unpackUint2x32(b), s * word(B_STEP) + column_at[t]);
    x = load_b(unpackUint2x32(b), s * word(B_STEP) + t * LANES);
    [[unroll]] for (uint i = 1u; i < LANES; i++) {
        const float y = load_b(unpackUint2x32(b), s * word(B_STEP) + t * LANES + i);

        x = is_lane[i] ? y : x;
    }
    return x;
}

void multiply(uint k, uint64_t b, const uint steps)
{
    const uint64_t ahead = uint64_t(k * word(A_STEP)) * A_BYTES;

    b += uint64_t(k * word(B_STEP)) * B_BYTES;
    [[unroll]] for (uint s = 0u; s < steps; s++) {
        float x[4];
#ifdef SHUFFLES
        const float own = a_at(0u, ahead, s);
#endif
        [[unroll]] for (uint t = 0u; t < COLUMNS; t++)
            x[t] = b_at(b, k, s, t);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
#ifdef SHUFFLES
            const float w = subgroupShuffle(own, r);
#else
            const float w = a_at(r, ahead, s);
#endif
            [[unroll]] for (uint t = 0u; t < COLUMNS; t++)
                acc[r * COLUMNS + t] = fma(w, x[t], acc[r * COLUMNS + t]);
        }
    }
}

// Sets the addresses of the rows of a strip at a tap of the window.
void set_row_addresses(uint64_t a, uint line, uint first, uint tap)
{
    const uint oy = line % word(OUT_SIZE + 1u), oz = line / word(OUT_SIZE + 1u);
    const uint kx = tap % word(WINDOW + 2u), ky = tap / word(WINDOW + 2u) % word(WINDOW + 1u),
               kz = tap / word(WINDOW + 2u) / word(WINDOW + 1u);
    const int y = int(oy * word(STRIDE + 1u) + ky * word(DILATION + 1u)) - iword(PAD_BEGIN + 1u);
    const int z = int(oz * word(STRIDE) + kz * word(DILATION)) - iword(PAD_BEGIN);
    const bool there = y >= 0 && y < iword(IN_SIZE + 1u) && z >= 0 && z < iword(IN_SIZE);
    const int base = there ? (z * iword(IN_SIZE + 1u) + y) * iword(IN_SIZE + 2u) : 0;

    [[unroll]] for (uint p = 0u; p < POINTERS; p++) {
        const uint r = POINTERS == 1u && ROWS > 1u ? min(lane, ROWS - 1u) : p;

        if (HAS(PRODUCT_WINDOWS)) {
            const int x = int((first + r) * word(STRIDE + 2u) + kx * word(DILATION + 2u)) - iword(PAD_BEGIN + 2u);

            inside[p] = there && x >= 0 && x < iword(IN_SIZE + 2u);
            row_at[p] = a + uint64_t(base + clamp(x, 0, iword(IN_SIZE + 2u) - 1)) * A_BYTES;
        } else {
            row_at[p] = a + uint64_t((line * word(LINE) + first + r) * word(A_ROW)) * A_BYTES;
        }
    }
}

float run_epilogue(uint i, uint column, float x)
{
    program_column = column;
    return program(i, x);
}

void main()
{
    const bool own = HAS(PRODUCT_SUBGROUPS);
    const uint part = own ? gl_SubgroupID : gl_LocalInvocationID.x / LANES;
    const uint together = gl_WorkGroupSize.x / LANES, per_line = (word(LINE) + ROWS - 1u) / ROWS;
    const uint strips = per_line * word(LINES), blocks = (strips + together - 1u) / together;
    const uint item = min(workgroup(), word(ITEMS) - 1u);
    const uint z = item / blocks / word(PANELS), block = HAS(PRODUCT_STRIPS_LAST) ? item / word(PANELS) % blocks
                                                                                   : item % blocks;
    const uint panel = HAS(PRODUCT_STRIPS_LAST) ? item % word(PANELS) : item / blocks % word(PANELS);
    const uint strip = min(block * together + part, strips - 1u), line = strip / per_line;
    // The last strip of a line overlaps the strip before.
    const uint first = min(strip % per_line * ROWS, word(LINE) - ROWS);
    const uint width = LANES * COLUMNS;
    const uint n = HAS(PRODUCT_LANE_BY_LANE) && !HAS(PRODUCT_PACKED) ? min(panel * width, word(N) - width)
                                                                    : panel * width;
    BATCHES(BATCH)
    const uint b = BATCH_AT(6u) + (HAS(PRODUCT_PACKED) ? panel * word(B_PANEL) : HAS(PRODUCT_LANE_BY_LANE) ? n : 0u);
    const uint out_at = BATCH_AT(9u) + (line * word(LINE) + first) * word(OUT_ROW);
    const uint64_t a_base = packUint2x32(at[PUSH_OWN]) + uint64_t(BATCH_AT(3u)) * A_BYTES;
    const uint shift = z2 * word(GROUP); // column offset: the groups before this one
    const bool siblings = HAS(PRODUCT_SIBLINGS);
    uint tap = 0u;
    uint64_t b_base = packUint2x32(at[PUSH_OWN + 1u + (siblings ? z0 : 0u)]) + uint64_t(b) * B_BYTES;

    b_first = B_BYTES == 0u ? b : 0u;

    if (siblings) {
        input_shift = z0 * word(INPUTS);
        out_push = z0 == 0u ? PUSH_OUT : PUSH_OWN + 3u + z0;
    }
    lane = own ? gl_SubgroupInvocationID : gl_LocalInvocationID.x % LANES;
    [[unroll]] for (uint i = 0u; i < 16u; i++)
        is_lane[i] = lane == i;
    [[unroll]] for (uint t = 0u; t < COLUMNS; t++)
        column_at[t] = HAS(PRODUCT_PACKED) ? t * LANES + lane
                                           : min(n + t * LANES + lane, word(N) - 1u) * word(B_COLUMN);
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
        acc[i] = 0.0;
    do {
        uint k = 0u;

        set_row_addresses(a_base, line, first, tap);
        if (word(K) >= STEPS)
            do {
                multiply(k, b_base, STEPS);
                k += STEPS;
            } while (k + STEPS <= word(K));
        if (word(K) % STEPS != 0u)
            do {
                multiply(k, b_base, 1u);
                k++;
            } while (k < word(K));
        b_base += uint64_t(word(B_TAP)) * B_BYTES;
        tap++;
    } while (tap < word(TAPS));
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
        results[i] = acc[i] * fword(ALPHA);
#define ELEMENT(i, column) (out_at + (i) / COLUMNS * word(OUT_ROW) + (column) * word(OUT_COLUMN))
#define COLUMN(i) (n + (i) % COLUMNS * LANES + lane)
    // Reads all inputs before any write, so that compilers need not reload them.
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
        if (!HAS(PRODUCT_LOOPED) && (!HAS(PRODUCT_TAIL) || COLUMN(i) < word(N)))
            results[i] = run_epilogue(ELEMENT(i, COLUMN(i)), shift + COLUMN(i), results[i]);
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
        if (!HAS(PRODUCT_TAIL) || COLUMN(i) < word(N)) {
            if (HAS(PRODUCT_LOOPED))
                F32(at[out_push]).v[ELEMENT(i, COLUMN(i))] = results[i];
            else
                store_out(at[out_push], ELEMENT(i, COLUMN(i)), results[i]);
        }
    if (HAS(PRODUCT_LOOPED)) // a long epilogue is compiled once for all elements, which are stored and loaded again
        [[dont_unroll]] for (uint i = 0u; i < ROWS * COLUMNS; i++)
            if (COLUMN(i) < word(N))
                store_out(at[out_push], ELEMENT(i, COLUMN(i)),
                          run_epilogue(ELEMENT(i, COLUMN(i)), shift + COLUMN(i),
                                       F32(at[out_push]).v[ELEMENT(i, COLUMN(i))]));
}

/* Loops over rows of codes, see cache_loops.h. Codes become floats in registers: a step of decoding reads each row once
 * for up to four queries that share it, and then takes as long as the memory needs to deliver the bytes. */
#include "cpu/attention/cache_loops.h"
#include "inlay/check.h"
#include "simd/vec_words.h"

enum {
    QUERIES = 4,                    /* queries that share the conversion of a code */
    CHUNK = VEC_LANES == 16 ? 4 : 2 /* vectors of a result in registers, for each query */
};

/* VEC_LANES bytes; whole: false = only the first `left` of them can be read, and the other lanes are 0. */
VEC_INLINE vint load_codes(const uint8_t *data, bool whole, int64_t left, bool is_signed)
{
    uint8_t some[VEC_LANES] = { 0 };

    if (whole)
        return vint_of_bytes(data, is_signed);
    memcpy(some, data, (size_t)left);
    return vint_of_bytes(some, is_signed);
}

/* The values of codes of 4 bits. */
static const float nibbles[16] = { -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7 };

/* The queries that the next step takes together; fewer may be left. */
static int together(int64_t left)
{
    return left > 2 ? QUERIES : left == 2 ? 2 : 1;
}

/* Adds the products of the elements that bytes k to k + VEC_LANES of the rows hold. high: the elements of the upper
 * halves of bytes. */
VEC_INLINE void add_products(int bits, int queries, const uint8_t *const *line, const float *const *query, int64_t high,
                             int64_t k, bool whole, int64_t left, vec *sum)
{
    const int across = VEC_LANES / queries;
    const vmask part = vec_first(left);
    vec first[QUERIES], second[QUERIES];

    VEC_UNROLL
    for (int r = 0; r < queries; r++) {
        first[r] = whole ? vec_load(query[r] + k) : vec_load_some(part, query[r] + k);
        if (bits == 4)
            second[r] = whole ? vec_load(query[r] + high + k) : vec_load_some(part, query[r] + high + k);
    }
    VEC_UNROLL
    for (int n = 0; n < across; n++) {
        const vint codes = load_codes(line[n] + k, whole, left, bits == 8);
        const vec low = bits == 8 ? vec_of(codes) : vec_pick(codes, 0, 4, nibbles);

        VEC_UNROLL
        for (int r = 0; r < queries; r++)
            sum[r * across + n] = vec_fma(first[r], low, sum[r * across + n]);
        if (bits == 4) {
            const vec upper = vec_pick(codes, 4, 4, nibbles);

            VEC_UNROLL
            for (int r = 0; r < queries; r++)
                sum[r * across + n] = vec_fma(second[r], upper, sum[r * across + n]);
        }
    }
}

/* Dot products of `left` queries, at most `queries`, with the first VEC_LANES / queries of `lines` rows. */
VEC_INLINE void dots_of(const cache_rows *rows, int bits, int queries, int64_t left, const uint8_t *data, int64_t lines,
                        const float *query, int64_t query_row, float *out, int64_t out_row)
{
    const int across = VEC_LANES / queries;
    const int64_t some = lines < across ? lines : across, bytes = cache_code_bytes(&rows->format);
    const uint8_t *line[VEC_LANES];
    const float *row[QUERIES];
    float scales[VEC_LANES], y[VEC_LANES];
    vec sum[VEC_LANES];
    int64_t k = 0;

    for (int r = 0; r < queries; r++)
        row[r] = query + (r < left ? r : 0) * query_row;
    for (int n = 0; n < across; n++)
        line[n] = data + (n < some ? n : 0) * rows->stride;
    VEC_UNROLL
    for (int n = 0; n < VEC_LANES; n++)
        sum[n] = vec_zero();
    for (; k + VEC_LANES <= bytes; k += VEC_LANES)
        add_products(bits, queries, line, row, bytes, k, true, VEC_LANES, sum);
    if (k < bytes)
        add_products(bits, queries, line, row, bytes, k, false, bytes - k, sum);
    vec_store(y, vec_sums(sum));
    for (int64_t n = 0; n < some; n++)
        scales[n] = rows->format.own ? cache_own_scale(&rows->format, data + n * rows->stride) : 1;
    for (int r = 0; r < queries && r < left; r++)
        for (int64_t n = 0; n < some; n++)
            out[r * out_row + n] = y[r * across + n] * scales[n];
}

VEC_INLINE void dots_by(const cache_rows *rows, int bits, int64_t count, const float *queries, int64_t query_row,
                        int64_t query_count, float *out, int64_t out_row)
{
    for (int64_t i = 0; i < count; i += VEC_LANES) {
        const int64_t lines = count - i < VEC_LANES ? count - i : VEC_LANES;
        const uint8_t *data = rows->data + i * rows->stride;
        int some;

        for (int64_t r = 0; r < query_count; r += some) {
            const int64_t left = query_count - r;

            some = together(left);
            for (int64_t n = 0; n < lines; n += VEC_LANES / some) {
                const uint8_t *from = data + n * rows->stride;
                float *to = out + r * out_row + i + n;

                if (some == QUERIES)
                    dots_of(rows, bits, QUERIES, left, from, lines - n, queries + r * query_row, query_row, to,
                            out_row);
                else if (some == 2)
                    dots_of(rows, bits, 2, left, from, lines - n, queries + r * query_row, query_row, to, out_row);
                else
                    dots_of(rows, bits, 1, left, from, lines - n, queries + r * query_row, query_row, to, out_row);
            }
        }
    }
}

static void dots(const cache_rows *rows, int64_t count, const float *queries, int64_t query_row, int64_t query_count,
                 float *out, int64_t out_row)
{
    INLAY_CHECK(rows->format.bits == 8 || rows->format.bits == 4);
    if (rows->format.bits == 8)
        dots_by(rows, 8, count, queries, query_row, query_count, out, out_row);
    else
        dots_by(rows, 4, count, queries, query_row, query_count, out, out_row);
}

/* Adds `count` <= CACHE_CHAIN rows of the bytes k to k + vectors * VEC_LANES, times their weights, to the results of
 * `left` queries, at most `queries`. whole: false = only `bytes` bytes from k are there. first: there is nothing to add
 * to. high: the elements of the upper halves of bytes. */
VEC_INLINE void sums_of(const uint8_t *data, int64_t stride, int bits, int queries, int vectors, int64_t left,
                        int64_t count, float (*weights)[CACHE_CHAIN], bool whole, int64_t bytes, float *out,
                        int64_t out_row, int64_t high, bool first)
{
    const int parts = bits == 8 ? vectors : 2 * vectors;
    vec sum[QUERIES][CHUNK];

    VEC_UNROLL
    for (int r = 0; r < queries; r++) {
        VEC_UNROLL
        for (int v = 0; v < parts; v++)
            sum[r][v] = vec_zero();
    }
    for (int64_t t = 0; t < count; t++, data += stride) {
        vec code[CHUNK];

        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            const vint codes = load_codes(data + v * VEC_LANES, whole, bytes, bits == 8);

            if (bits == 8) {
                code[v] = vec_of(codes);
            } else {
                code[2 * v] = vec_pick(codes, 0, 4, nibbles);
                code[2 * v + 1] = vec_pick(codes, 4, 4, nibbles);
            }
        }
        VEC_UNROLL
        for (int r = 0; r < queries; r++) {
            const vec weight = vec_set(weights[r][t]);

            VEC_UNROLL
            for (int v = 0; v < parts; v++)
                sum[r][v] = vec_fma(weight, code[v], sum[r][v]);
        }
    }
    VEC_UNROLL
    for (int r = 0; r < queries; r++) {
        VEC_UNROLL
        for (int v = 0; v < parts; v++) {
            const vmask part = vec_first(whole ? VEC_LANES : bytes);
            float *to = out + r * out_row + (bits == 8 ? v : v / 2) * VEC_LANES + (bits == 4 && v % 2 == 1 ? high : 0);

            if (r < left)
                vec_store_some(to, part, first ? sum[r][v] : vec_add(vec_load_some(part, to), sum[r][v]));
        }
    }
}

/* All bytes of the rows. */
VEC_INLINE void sums_in_chunks(const cache_rows *rows, int bits, int queries, const uint8_t *data, int64_t left,
                               int64_t count, float (*weights)[CACHE_CHAIN], float *out, int64_t out_row, bool first)
{
    const int wide = bits == 8 ? CHUNK : CHUNK / 2;
    const int64_t bytes = cache_code_bytes(&rows->format);
    int64_t k = 0;

    for (; k + wide * VEC_LANES <= bytes; k += wide * VEC_LANES)
        sums_of(data + k, rows->stride, bits, queries, wide, left, count, weights, true, 0, out + k, out_row, bytes,
                first);
    for (; k + VEC_LANES <= bytes; k += VEC_LANES)
        sums_of(data + k, rows->stride, bits, queries, 1, left, count, weights, true, 0, out + k, out_row, bytes,
                first);
    if (k < bytes)
        sums_of(data + k, rows->stride, bits, queries, 1, left, count, weights, false, bytes - k, out + k, out_row,
                bytes, first);
}

VEC_INLINE void sums_by(const cache_rows *rows, int bits, int64_t count, const float *weights, int64_t weight_row,
                        int64_t weight_count, float *out, int64_t out_row)
{
    for (int64_t i = 0; i < count; i += CACHE_CHAIN) {
        const int64_t some = count - i < CACHE_CHAIN ? count - i : CACHE_CHAIN;
        const uint8_t *data = rows->data + i * rows->stride;
        float scales[CACHE_CHAIN], scaled[QUERIES][CACHE_CHAIN];

        for (int64_t t = 0; t < some; t++)
            scales[t] = rows->format.own ? cache_own_scale(&rows->format, data + t * rows->stride) : 1;
        int queries;

        for (int64_t r = 0; r < weight_count; r += queries) {
            const int64_t left = weight_count - r;

            queries = together(left);
            for (int q = 0; q < queries; q++)
                for (int64_t t = 0; t < some; t++)
                    scaled[q][t] = weights[(r + (q < left ? q : 0)) * weight_row + i + t] * scales[t];
            if (queries == QUERIES)
                sums_in_chunks(rows, bits, QUERIES, data, left, some, scaled, out + r * out_row, out_row, i == 0);
            else if (queries == 2)
                sums_in_chunks(rows, bits, 2, data, left, some, scaled, out + r * out_row, out_row, i == 0);
            else
                sums_in_chunks(rows, bits, 1, data, left, some, scaled, out + r * out_row, out_row, i == 0);
        }
    }
}

static void sums(const cache_rows *rows, int64_t count, const float *weights, int64_t weight_row, int64_t weight_count,
                 float *out, int64_t out_row)
{
    INLAY_CHECK(count > 0 && (rows->format.bits == 8 || rows->format.bits == 4));
    if (rows->format.bits == 8)
        sums_by(rows, 8, count, weights, weight_row, weight_count, out, out_row);
    else
        sums_by(rows, 4, count, weights, weight_row, weight_count, out, out_row);
}

static void encode_own(const cache_format *format, float *row, uint8_t *out)
{
    cache_encode_own(format, row, out);
}

static void encode(const cache_format *format, const float *row, const float *inverse, uint8_t *out)
{
    cache_codes(format, row, inverse, 1, out);
}

static void decode(const cache_format *format, const uint8_t *row, const float *scales, int64_t step, float *out)
{
    cache_decode(format, row, scales, step, out);
}

const cache_loops
    KERNEL(cache_loops) = { .dots = dots, .sums = sums, .encode_own = encode_own, .encode = encode, .decode = decode };

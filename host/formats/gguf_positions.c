/* gguf_positions.c - the cosines and sines by which positions rotate queries and keys.
 *
 * A run computes those of its own positions from two tables, whose rows grow with the square root of the context. With
 * position = page * P + place, cos(position * f) is
 * cos(page * P * f) cos(place * f) - sin(page * P * f) sin(place * f). The tables are rounded from doubles. A table of
 * all positions has 67 MB for a context of 131,072 and heads of 128. */
#include "formats/gguf.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_PLACES = 512, NAME_BYTES = 64, MOST_PAIRS = 2048 };

/* The angles of a page and of a place in it are added. */
#define SUMS                                                                                                           \
    "Mul $.a $.c > $.ac;Mul $.b $.d > $.bd;Mul $.b $.c > $.bc;Mul $.a $.d > $.ad;"                                     \
    "Sub $.ac $.bd > $.cos;Add $.bc $.ad > $.sin;"

/* Positions of a page: a power of two that is at least the square root of the context. */
static int64_t places_of(int64_t context)
{
    int64_t places = LEAST_PLACES;

    while (places * places < context)
        places *= 2;
    return places;
}

void gguf_write_positions(int64_t context, struct wire *out)
{
    const int64_t places = places_of(context);

    onnx_tensor(out, "places", INLAY_INT64, NULL, 0, &places, sizeof places);
    /* In the first run a text has no tokens before the new ones, and shorter texts have padding behind them. */
    onnx_program(out,
                 "(0) > zero;[-1] > all_in_one;Shape input_ids > ids_shape;Gather ids_shape one > new_length;"
                 "Sub lengths new_length > old_lengths.later;Equal new_length total_length.wide > is_first;"
                 "Where is_first zero old_lengths.later > old_lengths;Range zero new_length one > new_range;"
                 "Unsqueeze old_lengths axis_one > old_lengths.column;Add old_lengths.column new_range > positions;"
                 "Reshape positions all_in_one > positions.list;Div positions.list places > positions.page;"
                 "Mod positions.list places > positions.place;Size input_ids > new_count;"
                 "Range zero new_count one > new_rows;Reshape new_rows ids_shape > rotary.row;",
                 "");
}

/* The index, as a fraction, of the pair that makes `turns` turns within the original context. YaRN interpolates fully
 * from the pair of the slow turns on, and not at all up to the pair of the fast turns. */
static float pair_of(const struct gguf_turning *turning, double turns)
{
    return (float)turning->size *
           logf((float)turning->original_context / ((float)turns * 2 * 3.14159265358979323846F)) /
           (2 * logf((float)turning->base));
}

/* The angle by which one position turns pair i. */
static double angle_of(const struct gguf_turning *turning, int64_t i)
{
    const double slower = turning->slower != NULL ? (double)gguf_element(turning->slower, i) : 1;
    const double angle = pow(turning->base, -2.0 * (double)i / (double)turning->size) / slower;
    float low, high, part;

    if (!turning->yarn)
        return angle / turning->factor;
    low = fmaxf(0, floorf(pair_of(turning, turning->fast)));
    high = fminf((float)turning->size - 1, ceilf(pair_of(turning, turning->slow)));
    part = fminf(1, fmaxf(0, ((float)i - low) / fmaxf(0.001F, high - low)));
    return angle / turning->factor * (double)part + angle * (1 - (double)part);
}

/* Cosines and sines of [rows] positions with the given step: NAME.cos, NAME.sin. */
static bool write_table(const char *name, const struct gguf_turning *turning, int64_t rows, int64_t step, double size,
                        struct wire *out)
{
    const int64_t half = turning->size / 2, dims[2] = { rows, half };
    const size_t bytes = (size_t)(rows * half) * sizeof(float);
    float *values = malloc(2 * bytes), *sines = values + rows * half;
    char full[NAME_BYTES];

    if (values == NULL)
        return false;
    for (int64_t i = 0; i < half; i++) {
        const double angle = angle_of(turning, i) * (double)step;

        for (int64_t row = 0; row < rows; row++) {
            values[row * half + i] = (float)(cos((double)row * angle) * size);
            sines[row * half + i] = (float)(sin((double)row * angle) * size);
        }
    }
    (void)snprintf(full, sizeof full, "%s.cos", name);
    onnx_tensor(out, full, INLAY_FLOAT, dims, 2, values, bytes);
    (void)snprintf(full, sizeof full, "%s.sin", name);
    onnx_tensor(out, full, INLAY_FLOAT, dims, 2, sines, bytes);
    free(values);
    return true;
}

void gguf_write_turning(struct gguf *gguf, const char *name, const struct gguf_turning *turning, struct wire *out)
{
    const int64_t places = places_of(turning->context), rows = places < turning->context ? places : turning->context;
    char page[NAME_BYTES], place[NAME_BYTES];

    (void)snprintf(page, sizeof page, "%s.page", name);
    (void)snprintf(place, sizeof place, "%s.place", name);
    if (!write_table(page, turning, (turning->context + places - 1) / places, places, 1, out) ||
        !write_table(place, turning, rows, 1, turning->amplitude, out)) {
        gguf->status = inlay_fail(gguf->diag, INLAY_OUT_OF_MEMORY, "out of memory for the angles of positions");
        return;
    }
    onnx_program(out,
                 "Gather $.page.cos positions.page > $.a;Gather $.page.sin positions.page > $.b;"
                 "Gather $.place.cos positions.place > $.c;Gather $.place.sin positions.place > $.d;" SUMS,
                 name);
}

void gguf_write_sections(const int64_t sections[GGUF_SECTIONS], int64_t pairs, bool alternates, struct wire *out)
{
    static const int64_t none[GGUF_SECTIONS] = { 0 };
    const int64_t sum = sections[0] + sections[1] + sections[2];
    float shares[GGUF_SECTIONS * MOST_PAIRS] = { 0 };

    INLAY_CHECK(pairs <= MOST_PAIRS);
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t k = i % sum;
        int64_t owner = k < sections[0] ? 0 : k < sections[0] + sections[1] ? 1 : 2;

        if (alternates)
            owner = k / GGUF_SECTIONS < sections[k % GGUF_SECTIONS] ? k % GGUF_SECTIONS : 0;
        shares[owner * pairs + i] = 1;
    }
    onnx_tensor(out, "image_shifts.none", INLAY_INT64, (int64_t[]){ 1, GGUF_SECTIONS }, 2, none, sizeof none);
    onnx_tensor(out, "shares", INLAY_FLOAT, (int64_t[]){ GGUF_SECTIONS, pairs }, 2, shares,
                (size_t)(GGUF_SECTIONS * pairs) * sizeof *shares);
    onnx_program(out,
                 "Unsqueeze positions.list axis_one > $.text;Add $.text image_shifts.none > $.positions;"
                 "Div $.positions places > $.page;Mod $.positions places > $.place;"
                 "Gather rotary.page.cos $.page > $.a;Gather rotary.page.sin $.page > $.b;"
                 "Gather rotary.place.cos $.place > $.c;Gather rotary.place.sin $.place > $.d;" SUMS
                 "Mul $.cos shares > $.cos.parts;ReduceSum $.cos.parts axis_one > image_turns.cos keepdims=0;"
                 "Mul $.sin shares > $.sin.parts;ReduceSum $.sin.parts axis_one > image_turns.sin keepdims=0;",
                 "sections");
}

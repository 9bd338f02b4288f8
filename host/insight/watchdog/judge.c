#include "watchdog/judge.h"
#include "base/element.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "watchdog/floats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISY_RUNS = 4 };

static bool same_shape(const inlay_value_info *want, const inlay_tensor_view *got)
{
    bool same = want->rank == got->rank && want->dtype == got->dtype && want->data_bytes == got->bytes;

    for (uint32_t d = 0; same && d < want->rank; d++)
        same = want->dims[d].value == got->dims[d];
    return same;
}

/* Do neighbouring codes of the type differ by one step? */
static bool has_steps(inlay_dtype dtype)
{
    return dtype == INLAY_INT8 || dtype == INLAY_UINT8 || dtype == INLAY_INT16 || dtype == INLAY_UINT16 ||
           dtype == INLAY_INT4 || dtype == INLAY_UINT4 || dtype == INLAY_INT2 || dtype == INLAY_UINT2;
}

/* What an element may be off by. extra: due to noise. */
static void tolerance_of(inlay_dtype dtype, bool inexact, double extra, double *out_rtol, double *out_atol)
{
    *out_rtol = *out_atol = 0;
    if (!inexact)
        return;
    if (has_steps(dtype)) /* steps are whole numbers: one step more than noise causes is not the kernel's fault */
        *out_atol = extra <= 1 ? 1 : 2 * extra - 1;
    else if (element_is_float(dtype))
        element_tolerance(dtype, out_rtol, out_atol);
    if (!has_steps(dtype))
        *out_atol += PIECE_MARGIN * extra;
}

/* Compares an output. extra: the deviation due to noise; negative: not known. wild: NaN and infinities do not count. */
static void judge_output(const inlay_value_info *want, uint32_t value, const inlay_tensor_view *got, bool inexact,
                         bool wild, double extra, struct verdict *out)
{
    double rtol, atol;
    floats_difference found;

    if (!same_shape(want, got)) {
        *out = (struct verdict){ .wrong = true, .value = value, .at = -1, .error = INFINITY };
        return;
    }
    if (want->data_bytes == 0 || memcmp(want->data, got->data, (size_t)want->data_bytes) == 0)
        return;
    tolerance_of(want->dtype, inexact, extra > 0 ? extra : 0, &rtol, &atol);
    found = floats_compare(want->dtype, want->data, got->data, graph_constant_count(want), rtol, atol);
    if (found.not_finite >= 0 && !wild && isfinite(extra)) {
        found.at = found.not_finite;
        found.largest_excess = INFINITY;
    }
    if (found.at < 0 || (out->wrong && found.largest_excess <= out->error))
        return;
    *out = (struct verdict){ .wrong = true, .value = value, .at = found.at, .error = found.largest_excess };
    (void)element_number(want->dtype, want->data, found.at, &out->want, NULL);
    (void)element_number(want->dtype, got->data, found.at, &out->got, NULL);
    out->bound = atol + rtol * fabs(out->want);
}

/* Values that equal those of `from` until they are computed. */
static bool begin_values(piece_values *values, const struct piece *piece, const piece_values *from)
{
    if (!piece_values_init(values, piece->graph))
        return false;
    memcpy(values->infos, from->infos, from->count * sizeof *from->infos);
    memcpy(values->marks, from->marks, from->count);
    return true;
}

static inlay_status compute(const piece_machine *reference, const struct piece *piece, const piece_noise *noise,
                            const piece_values *from, piece_values *values, inlay_diag *diag)
{
    if (!begin_values(values, piece, from))
        return no_memory(diag, "to check a region");
    return piece_compute(reference, piece, noise, values, diag);
}

/* deviations [piece->output_count]: the largest deviation that noise causes in each output. */
static inlay_status measure_noise(const piece_machine *reference, const struct piece *piece, const uint8_t *inexact,
                                  const piece_values *from, const piece_values *plain, double *deviations,
                                  inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint64_t run = 0; run < NOISY_RUNS && status == INLAY_OK; run++) {
        const piece_noise noise = { inexact, run };
        piece_values noisy = { 0 };

        status = compute(reference, piece, &noise, from, &noisy, diag);
        for (uint32_t i = 0; i < piece->output_count && status == INLAY_OK; i++) {
            const inlay_value_info *want = &plain->infos[piece->outputs[i]], *other = &noisy.infos[piece->outputs[i]];
            floats_difference found;

            if (want->rank != other->rank || want->data_bytes != other->data_bytes) {
                status = inlay_fail(diag, INLAY_UNSUPPORTED, "rounding errors change the shape of a result");
                break;
            }
            found = floats_compare(want->dtype, want->data, other->data, graph_constant_count(want), 0, 0);
            deviations[i] = found.not_finite >= 0 ? INFINITY : fmax(deviations[i], found.largest);
        }
        piece_values_deinit(&noisy);
    }
    return status;
}

/* Has some value of the piece marks? */
static bool is_wild(const struct piece *piece, const piece_values *values)
{
    bool wild = false;

    for (uint32_t k = 0; k < piece->node_count; k++) {
        const inlay_node_info *node = &piece->graph->nodes[piece->nodes[k]]->info;

        for (uint32_t i = 0; i < node->input_count; i++)
            wild |= node->inputs[i] != INLAY_NONE && values->marks[node->inputs[i]] != 0;
        for (uint32_t i = 0; i < node->output_count; i++)
            wild |= node->outputs[i] != INLAY_NONE && values->marks[node->outputs[i]] != 0;
    }
    return wild;
}

static void judge_outputs(const struct piece *piece, const uint8_t *inexact, const piece_values *values,
                          const inlay_tensor_view *got, const double *deviations, struct verdict *out)
{
    const bool wild = is_wild(piece, values);

    *out = (struct verdict){ .wrong = false };
    for (uint32_t i = 0; i < piece->output_count; i++)
        judge_output(&values->infos[piece->outputs[i]], piece->outputs[i], &got[i], inexact[piece->outputs[i]] != 0,
                     wild, deviations != NULL ? deviations[i] : -1, out);
}

/* Does a second computation give the same bits? */
static inlay_status repeat(const piece_machine *reference, const struct piece *piece, const piece_values *from,
                           const piece_values *plain, bool *out_same, inlay_diag *diag)
{
    piece_values again = { 0 };
    const inlay_status status = compute(reference, piece, NULL, from, &again, diag);

    *out_same = status == INLAY_OK;
    for (uint32_t i = 0; i < piece->output_count && *out_same; i++) {
        const inlay_value_info *a = &plain->infos[piece->outputs[i]], *b = &again.infos[piece->outputs[i]];

        *out_same = a->data_bytes == b->data_bytes && memcmp(a->data, b->data, (size_t)a->data_bytes) == 0;
    }
    piece_values_deinit(&again);
    return status;
}

inlay_status judge_piece(const piece_machine *reference, const struct piece *piece, const uint8_t *inexact,
                         const piece_values *from, const inlay_tensor_view *got, piece_values *values,
                         struct verdict *out, inlay_diag *diag)
{
    double *deviations = calloc((size_t)piece->output_count + 1, sizeof *deviations);
    bool same = true;
    inlay_status status = INLAY_OK;

    *out = (struct verdict){ .wrong = false };
    if (deviations == NULL)
        return no_memory(diag, "to check a region");
    INLAY_TRY(compute(reference, piece, NULL, from, values, diag));
    judge_outputs(piece, inexact, values, got, NULL, out);
    if (!out->wrong)
        goto done;
    if (piece_may_overflow(piece, inexact, values)) {
        *out = (struct verdict){ .unsure = true };
        goto done;
    }
    if (out->at >= 0) {
        INLAY_TRY(measure_noise(reference, piece, inexact, from, values, deviations, diag));
        judge_outputs(piece, inexact, values, got, deviations, out);
    }
    if (out->wrong) /* the error may be one of the reference: a bit that was flipped just now */
        INLAY_TRY(repeat(reference, piece, from, values, &same, diag));
    out->unsteady = !same;
    out->wrong = out->wrong && same;
done:
    free(deviations);
    return status;
}

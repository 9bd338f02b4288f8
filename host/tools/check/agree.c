#include "check/agree.h"
#include "base/element.h"
#include <math.h>
#include <string.h>

double agree_rtol(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_DOUBLE:
    case INLAY_COMPLEX128:
        return 1e-10;
    case INLAY_FLOAT:
    case INLAY_COMPLEX64:
        return 1e-4;
    case INLAY_FLOAT16:
        return 4e-3;
    case INLAY_BFLOAT16:
        return 3e-2;
    default:
        return element_is_float(dtype) ? 0.13 : 0;
    }
}

static double largest(const inlay_tensor_view *t, int64_t count)
{
    double most = 0, re, im;

    for (int64_t i = 0; i < count; i++)
        if (element_number(t->dtype, t->data, i, &re, &im) && isfinite(re) && isfinite(im))
            most = fmax(most, hypot(re, im));
    return most;
}

static bool same_number(inlay_dtype dtype, const void *got, const void *want, int64_t i, double rtol, double atol)
{
    double g[2], w[2];
    int64_t a, b;

    if (element_integer(dtype, got, i, &a) && element_integer(dtype, want, i, &b) && a == b)
        return true;
    if (!element_number(dtype, got, i, &g[0], &g[1]) || !element_number(dtype, want, i, &w[0], &w[1]))
        return false;
    for (int k = 0; k < 2; k++)
        if ((isnan(g[k]) && isnan(w[k])) || g[k] == w[k])
            g[k] = w[k] = isfinite(w[k]) ? w[k] : 0;
    return hypot(g[0] - w[0], g[1] - w[1]) <= atol + rtol * hypot(w[0], w[1]);
}

static bool same_string(const inlay_str *a, const inlay_str *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, (size_t)a->bytes) == 0);
}

static void shape_text(inlay_dtype dtype, uint32_t rank, const int64_t *dims, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s[", inlay_dtype_name(dtype));

    for (uint32_t d = 0; d < rank && used < bytes; d++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? "," : "", (long long)dims[d]);
    if (used < bytes)
        (void)snprintf(text + used, bytes - used, "]");
}

bool agree_tensor(const bench_output *got, const inlay_tensor_view *want, double rtol, double atol, char *text,
                  size_t bytes)
{
    char a[160], b[160];
    int64_t wrong = 0, first = 0;

    if (got->dtype != want->dtype || got->rank != want->rank ||
        (got->rank > 0 && memcmp(got->dims, want->dims, got->rank * sizeof got->dims[0]) != 0)) {
        shape_text(got->dtype, got->rank, got->dims, a, sizeof a);
        shape_text(want->dtype, want->rank, want->dims, b, sizeof b);
        (void)snprintf(text, bytes, "it is %s instead of %s", a, b);
        return false;
    }
    for (int64_t i = 0; i < got->count; i++) {
        bool same = got->dtype == INLAY_STRING
                        ? same_string((const inlay_str *)got->data + i, (const inlay_str *)want->data + i)
                        : same_number(got->dtype, got->data, want->data, i, rtol, atol);
        if (!same && wrong++ == 0)
            first = i;
    }
    if (wrong > 0)
        (void)snprintf(text, bytes, "element %lld is %s instead of %s (%lld of %lld are wrong)", (long long)first,
                       element_text(got->dtype, got->data, first, a, sizeof a),
                       element_text(want->dtype, want->data, first, b, sizeof b), (long long)wrong,
                       (long long)got->count);
    return wrong == 0;
}

bool agree(const bench_result *got, const bench_result *want, char *text, size_t bytes)
{
    char inner[400];

    for (uint32_t o = 0; o < want->out_count && o < got->out_count; o++) {
        const bench_output *w = &want->out[o];
        const inlay_tensor_view view = {
            .data = w->data, .bytes = w->bytes, .dims = w->dims, .rank = w->rank, .dtype = w->dtype
        };
        double rtol = agree_rtol(w->dtype);

        if (agree_tensor(&got->out[o], &view, rtol, rtol * largest(&view, w->count), inner, sizeof inner))
            continue;
        (void)snprintf(text, bytes, "output %u: %s", o, inner);
        return false;
    }
    return true;
}

bool agree_exactly(const bench_result *a, const bench_result *b)
{
    for (uint32_t o = 0; o < a->out_count; o++)
        if (a->out[o].bytes != b->out[o].bytes || a->out[o].dtype == INLAY_STRING ||
            memcmp(a->out[o].data, b->out[o].data, (size_t)a->out[o].bytes) != 0)
            return a->out[o].dtype == INLAY_STRING;
    return true;
}

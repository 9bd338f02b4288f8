#include "cli/compare.h"
#include "base/element.h"
#include "data/value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct mismatch {
    char *text;
    size_t bytes;
    double rtol, atol;
} mismatch;

static bool same_string(const inlay_str *a, const inlay_str *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

/* The error of element i: 0 when it is exact, INFINITY when it is beyond numbers. *out_ok says whether it will do. */
static double element_error(const inlay_tensor_view *got, const inlay_tensor_view *want, int64_t i, const mismatch *m,
                            bool *out_ok)
{
    double g[2], w[2], error, size;
    int64_t a, b;

    *out_ok = true;
    if (want->dtype == INLAY_STRING) {
        *out_ok = same_string((const inlay_str *)got->data + i, (const inlay_str *)want->data + i);
        return *out_ok ? 0 : INFINITY;
    }
    if (element_integer(want->dtype, got->data, i, &a) && element_integer(want->dtype, want->data, i, &b) && a == b)
        return 0; /* exactly, beyond what a double holds */
    if (!element_number(want->dtype, got->data, i, &g[0], &g[1]) ||
        !element_number(want->dtype, want->data, i, &w[0], &w[1])) {
        *out_ok = false;
        return INFINITY;
    }
    for (int k = 0; k < 2; k++) {
        /* Parts that are NaN, or the same infinity, count as equal. */
        if ((isnan(g[k]) && isnan(w[k])) || g[k] == w[k])
            g[k] = w[k] = isfinite(w[k]) ? w[k] : 0;
    }
    error = hypot(g[0] - w[0], g[1] - w[1]);
    size = hypot(w[0], w[1]);
    *out_ok = error <= m->atol + m->rtol * size && isfinite(error);
    return isnan(error) ? INFINITY : error;
}

/* "[1,2,3]" of a flat index. */
static void index_text(const inlay_tensor_view *t, int64_t flat, char *text, size_t bytes)
{
    int64_t index[INLAY_MAX_RANK] = { 0 };
    size_t used = 0;

    for (uint32_t d = t->rank < INLAY_MAX_RANK ? t->rank : INLAY_MAX_RANK; d-- > 0;) {
        index[d] = t->dims[d] > 0 ? flat % t->dims[d] : 0;
        flat = t->dims[d] > 0 ? flat / t->dims[d] : 0;
    }
    text[0] = '\0';
    for (uint32_t d = 0; d < t->rank && d < INLAY_MAX_RANK && used < bytes; d++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld%s", d == 0 ? "[" : ",", (long long)index[d],
                                 d + 1 == t->rank ? "]" : "");
}

static bool compare_tensor(const inlay_value *value, const inlay_tensor_view *want, const mismatch *m)
{
    int64_t count = inlay_value_count(value), wrong = 0, first = 0, worst_at = 0;
    char at[128], worst_text[128], got_text[96], want_text[96], got_type[192];
    double worst = -1;
    inlay_tensor_view got;

    if (!value_view(value, &got)) {
        (void)snprintf(m->text, m->bytes, "got %s, want a tensor", value_type_text(value, got_type, sizeof got_type));
        return false;
    }
    if (value_same_bits(want->dtype, got.dtype))
        got.dtype = want->dtype; /* compared as numbers of 16 bits, which forgives the last bit */
    if (got.dtype != want->dtype || got.rank != want->rank ||
        (got.rank > 0 && memcmp(got.dims, want->dims, got.rank * sizeof *got.dims) != 0)) {
        size_t used =
            (size_t)snprintf(m->text, m->bytes, "got %s, want %s[", value_type_text(value, got_type, sizeof got_type),
                             inlay_dtype_name(want->dtype));
        for (uint32_t i = 0; i < want->rank && used < m->bytes; i++)
            used += (size_t)snprintf(m->text + used, m->bytes - used, "%s%lld", i > 0 ? ", " : "",
                                     (long long)want->dims[i]);
        if (used < m->bytes)
            (void)snprintf(m->text + used, m->bytes - used, "]");
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        bool ok;
        double error = element_error(&got, want, i, m, &ok);
        if (ok)
            continue;
        first = wrong++ == 0 ? i : first;
        if (error > worst) {
            worst = error;
            worst_at = i;
        }
    }
    if (wrong == 0)
        return true;
    index_text(want, first, at, sizeof at);
    index_text(want, worst_at, worst_text, sizeof worst_text);
    (void)snprintf(m->text, m->bytes, "%s got %s, want %s (%lld of %lld wrong, worst error %.3g at %s)", at,
                   element_text(got.dtype, got.data, first, got_text, sizeof got_text),
                   element_text(want->dtype, want->data, first, want_text, sizeof want_text), (long long)wrong,
                   (long long)count, worst, worst_text[0] != '\0' ? worst_text : "the scalar");
    return false;
}

bool compare_value(const inlay_value *got, const model_datum *want, double rtol, double atol, char *text, size_t bytes)
{
    mismatch m = { text, bytes, rtol, atol };
    char type[192], inner[400];

    if (want->kind == INLAY_VALUE_TENSOR)
        return compare_tensor(got, &want->tensor, &m);
    /* The kinds of values and of test data have the same numbers. */
    if (inlay_value_kind(got) != want->kind || inlay_value_count(got) != want->item_count) {
        static const char *const kinds[] = { "?", "tensor", "sequence", "optional", "map" };
        (void)snprintf(text, bytes, "got %s, want %s(%u items)", value_type_text(got, type, sizeof type),
                       kinds[want->kind < 5 ? want->kind : 0], want->item_count);
        return false;
    }
    for (uint32_t i = 0; i < want->item_count; i++) {
        if (!compare_value(inlay_value_item(got, i), &want->items[i], rtol, atol, inner, sizeof inner)) {
            (void)snprintf(text, bytes, "item %u: %s", i, inner);
            return false;
        }
    }
    return true;
}

bool compare_datum(const inlay_value *v, model_datum *out)
{
    *out = (model_datum){ .kind = inlay_value_kind(v), .name = "" };
    if (out->kind == INLAY_KIND_TENSOR) {
        out->tensor = (inlay_tensor_view){ .data = inlay_value_data(v),
                                           .bytes = inlay_value_bytes(v),
                                           .dims = inlay_value_dims(v),
                                           .rank = inlay_value_rank(v),
                                           .dtype = inlay_value_dtype(v) };
        return true;
    }
    out->item_count = (uint32_t)inlay_value_count(v);
    out->items = calloc((size_t)out->item_count + 1, sizeof *out->items);
    for (uint32_t i = 0; out->items != NULL && i < out->item_count; i++)
        if (!compare_datum(inlay_value_item(v, i), &out->items[i]))
            return false;
    return out->items != NULL;
}

void compare_datum_free(model_datum *d)
{
    for (uint32_t i = 0; d->items != NULL && i < d->item_count; i++)
        compare_datum_free(&d->items[i]);
    free(d->items);
}

#include "data/compare.h"
#include "inlay/check.h"
#include "base/element.h"
#include "base/memory.h"
#include "data/value.h"
#include "data/view.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 }; /* elements whose bits are compared at once */

static bool same_string(const inlay_str *left, const inlay_str *right)
{
    return left->bytes == right->bytes && (left->bytes == 0 || memcmp(left->data, right->data, left->bytes) == 0);
}

/* hypot(), which takes longer; most numbers are real. */
static double modulus(double re, double im)
{
    return im == 0 ? fabs(re) : hypot(re, im);
}

/* The error of element i: 0 if it is exact, INFINITY for NaN or infinity. *out_ok: it is within the tolerance. */
static double element_error(const void *got, const inlay_tensor_view *want, int64_t i, double rtol, double atol,
                            bool *out_ok)
{
    double got_parts[2], want_parts[2], error, size;
    int64_t got_integer, want_integer;

    *out_ok = true;
    if (want->dtype == INLAY_STRING) {
        *out_ok = same_string((const inlay_str *)got + i, (const inlay_str *)want->data + i);
        return *out_ok ? 0 : INFINITY;
    }
    if (element_integer(want->dtype, got, i, &got_integer) &&
        element_integer(want->dtype, want->data, i, &want_integer) && got_integer == want_integer)
        return 0; /* exact, also beyond the precision of a double */
    if (!element_number(want->dtype, got, i, &got_parts[0], &got_parts[1]) ||
        !element_number(want->dtype, want->data, i, &want_parts[0], &want_parts[1])) {
        *out_ok = false;
        return INFINITY;
    }
    for (int k = 0; k < 2; k++) {
        /* Parts that are NaN, or the same infinity, count as equal. */
        if ((isnan(got_parts[k]) && isnan(want_parts[k])) || got_parts[k] == want_parts[k])
            got_parts[k] = want_parts[k] = isfinite(want_parts[k]) ? want_parts[k] : 0;
    }
    error = modulus(got_parts[0] - want_parts[0], got_parts[1] - want_parts[1]);
    size = modulus(want_parts[0], want_parts[1]);
    *out_ok = error <= atol + rtol * size && isfinite(error);
    return isnan(error) ? INFINITY : error;
}

static float float_at(const void *data, int64_t i)
{
    float number;

    memcpy(&number, (const char *)data + (size_t)i * sizeof number, sizeof number);
    return number;
}

/* element_error() for two finite floats, the most frequent numbers, in a tenth of the time. False: they are not. */
static bool float_error(const void *got, const inlay_tensor_view *want, int64_t i, double rtol, double atol,
                        double *out_error, bool *out_ok)
{
    const double number = want->dtype == INLAY_FLOAT ? float_at(want->data, i) : NAN;

    *out_error = want->dtype == INLAY_FLOAT ? fabs(float_at(got, i) - number) : NAN;
    *out_ok = *out_error <= atol + rtol * fabs(number);
    return isfinite(*out_error);
}

/* Writes a flat index as "[1,2,3]". */
static const char *index_text(const inlay_tensor_view *view, int64_t flat, char *text, size_t bytes)
{
    int64_t index[INLAY_MAX_RANK] = { 0 };

    for (uint32_t axis = view->rank < INLAY_MAX_RANK ? view->rank : INLAY_MAX_RANK; axis-- > 0;) {
        index[axis] = view->dims[axis] > 0 ? flat % view->dims[axis] : 0;
        flat = view->dims[axis] > 0 ? flat / view->dims[axis] : 0;
    }
    return view->rank > 0 ? dims_text(index, view->rank, ",", text, bytes) : "the scalar";
}

struct comparison compare_elements(const void *got, const inlay_tensor_view *want, int64_t count, double rtol,
                                   double atol)
{
    const size_t bytes = want->dtype != INLAY_STRING ? inlay_dtype_bits(want->dtype) / 8 : 0;
    struct comparison found = { .worst = -1 };

    for (int64_t i = 0; i < count; i++) {
        bool ok;
        double error;

        /* Numbers with equal bits have no error, so most blocks need no further look. */
        while (atol >= 0 && bytes > 0 && count - i >= BLOCK &&
               memcmp((const char *)got + (size_t)i * bytes, (const char *)want->data + (size_t)i * bytes,
                      BLOCK * bytes) == 0)
            i += BLOCK;
        if (i == count)
            break;
        if (!float_error(got, want, i, rtol, atol, &error, &ok))
            error = element_error(got, want, i, rtol, atol, &ok);
        if (ok)
            continue;
        found.first = found.wrong++ == 0 ? i : found.first;
        if (error > found.worst) {
            found.worst = error;
            found.worst_at = i;
        }
    }
    return found;
}

double compare_largest(const inlay_tensor_view *view, int64_t count)
{
    double largest = 0, re, im;

    for (int64_t i = 0; i < count && view->dtype == INLAY_FLOAT; i++)
        if (isfinite(float_at(view->data, i)))
            largest = fmax(largest, fabs(float_at(view->data, i)));
    for (int64_t i = 0; i < count && view->dtype != INLAY_FLOAT; i++)
        if (element_number(view->dtype, view->data, i, &re, &im) && isfinite(re) && isfinite(im))
            largest = fmax(largest, modulus(re, im));
    return largest;
}

bool compare_tensor(const inlay_tensor_view *got, const inlay_tensor_view *want, double rtol, double atol, char *text,
                    size_t bytes)
{
    char at[128], worst_text[128], got_text[160], want_text[160];
    int64_t count = 1;
    struct comparison found;

    if ((got->dtype != want->dtype && !value_same_bits(want->dtype, got->dtype)) || got->rank != want->rank ||
        (got->rank > 0 && memcmp(got->dims, want->dims, got->rank * sizeof *got->dims) != 0)) {
        (void)snprintf(text, bytes, "got %s%s, want %s%s", inlay_dtype_name(got->dtype),
                       dims_text(got->dims, got->rank, ", ", got_text, sizeof got_text), inlay_dtype_name(want->dtype),
                       dims_text(want->dims, want->rank, ", ", want_text, sizeof want_text));
        return false;
    }
    for (uint32_t axis = 0; axis < want->rank; axis++)
        count *= want->dims[axis];
    INLAY_CHECK(count >= 0);
    /* If want stores bfloat16 as uint16 (value_same_bits), both are compared as uint16 numbers. */
    found = compare_elements(got->data, want, count, rtol, atol);
    if (found.wrong == 0)
        return true;
    (void)snprintf(text, bytes, "%s got %s, want %s (%lld of %lld wrong, worst error %.3g at %s)",
                   index_text(want, found.first, at, sizeof at),
                   element_text(want->dtype, got->data, found.first, got_text, 96),
                   element_text(want->dtype, want->data, found.first, want_text, 96), (long long)found.wrong,
                   (long long)count, found.worst, index_text(want, found.worst_at, worst_text, sizeof worst_text));
    return false;
}

bool compare_value(const inlay_value *got, const model_datum *want, double rtol, double atol, char *text, size_t bytes)
{
    char type[192], inner[400];
    inlay_tensor_view view;

    if (want->kind == INLAY_VALUE_TENSOR && value_view(got, &view))
        return compare_tensor(&view, &want->tensor, rtol, atol, text, bytes);
    if (want->kind == INLAY_VALUE_TENSOR) {
        (void)snprintf(text, bytes, "got %s, want a tensor", value_type_text(got, type, sizeof type));
        return false;
    }
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

/* Converts a value to test data. It borrows all but the lists of items, which free_datum() frees. False: out of memory.
 */
static bool make_datum(const inlay_value *value, model_datum *out)
{
    *out = (model_datum){ .kind = inlay_value_kind(value), .name = "" };
    if (out->kind == INLAY_KIND_TENSOR) {
        out->tensor = (inlay_tensor_view){ .data = inlay_value_data(value),
                                           .bytes = inlay_value_bytes(value),
                                           .dims = inlay_value_dims(value),
                                           .rank = inlay_value_rank(value),
                                           .dtype = inlay_value_dtype(value) };
        return true;
    }
    out->item_count = (uint32_t)inlay_value_count(value);
    out->items = calloc((size_t)out->item_count + 1, sizeof *out->items);
    for (uint32_t i = 0; out->items != NULL && i < out->item_count; i++)
        if (!make_datum(inlay_value_item(value, i), &out->items[i]))
            return false;
    return out->items != NULL;
}

static void free_datum(model_datum *datum)
{
    for (uint32_t i = 0; datum->items != NULL && i < datum->item_count; i++)
        free_datum(&datum->items[i]);
    free(datum->items);
}

inlay_status compare_values(const inlay_value *got, const inlay_value *want, double rtol, double atol, bool *out_same,
                            char *text, size_t bytes, inlay_diag *diag)
{
    model_datum datum;
    const bool complete = make_datum(want, &datum);

    *out_same = complete && compare_value(got, &datum, rtol, atol, text, bytes);
    free_datum(&datum);
    return complete ? INLAY_OK : no_memory(diag, "to compare outputs");
}

/* Cast (ONNX 1, 6, 9, 13, 19, 21, 23, 24, 25), CastLike (15, 19, 21, 23, 24, 25), BitCast (26). The target type is the
 * dtype of the output, which shape inference has read from `to`.
 *
 * Numbers are converted through a type that represents them exactly: int64 for integers, double for double and uint64,
 * float for the rest. Strings have the form that ONNX Runtime writes (1, 0.1, 1e+10, NaN, INF, -INF; booleans as 1 and
 * 0), but with the fewest digits that read back as the same number, as in ONNX's test cases; ONNX Runtime writes up to
 * 8 digits. They are read in the C locale.
 *
 * ONNX does not define the result for a float that the integer type cannot represent. Here, on every path and CPU, the
 * fraction is truncated and NaN becomes 0. The value is then clamped to the range of a wider integer type: int32 for
 * INT32 and all types of at most 16 bits, int64 for UINT32 and INT64, and for UINT64 int64 or uint64, depending on its
 * sign. The result is the low bits of the clamped value. So 300 is 44 as UINT8 and -1 is 255, as in ONNX Runtime and
 * numpy on x86; 1e20 and infinity are 255 as UINT8, -1 as INT8, and the largest value of INT32, INT64 and UINT64. BOOL
 * is false only for 0. Strings that are not written as integers ("3e9") are converted as double. */
#define _GNU_SOURCE /* strtod_l */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/elementwise.h"
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum {
    CAST_GRAIN = 128 /* minimum blocks of ELEMENTWISE_BLOCK per thread */
};

typedef struct cast_state {
    uint32_t how;    /* flags for convert_from_*() */
    locale_t c_only; /* the C locale, if strings are read; otherwise 0 */
} cast_state;

static void release_cast(void *state)
{
    cast_state *cast = state;

    if (cast != NULL && cast->c_only != (locale_t)0)
        freelocale(cast->c_only);
    free(cast);
}

static inlay_status prepare_cast(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *mode = kit_attr_string(node->info, "round_mode", "up");
    uint32_t e8m0 = E8M0_UP;
    cast_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    if (strcmp(mode, "down") == 0)
        e8m0 = E8M0_DOWN;
    else if (strcmp(mode, "nearest") == 0)
        e8m0 = E8M0_NEAREST;
    else if (strcmp(mode, "up") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "Cast: round_mode is '%s'; it can be up, down or nearest", mode);
    state->how = e8m0 << CONVERT_E8M0_SHIFT | (kit_attr_int(node->info, "saturate", 1) != 0 ? CONVERT_SATURATE : 0);
    if (kit_input_dtype(node, 0) == INLAY_STRING) {
        state->c_only = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (state->c_only == (locale_t)0)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the C locale");
    }
    return INLAY_OK;
}

#define WIDE_INTEGERS (KIT_BIT(INT32) | KIT_BIT(UINT32) | KIT_BIT(INT64))

/* The type through which elements are converted from `from` to `to`. */
static inlay_dtype middle_type(inlay_dtype from, inlay_dtype to)
{
    uint64_t bit = INLAY_DTYPE_BIT(from);
    bool to_integer =
        ((KIT_INTEGERS | KIT_BIT(BOOL) | (KIT_SUBBYTE & ~KIT_BIT(FLOAT4E2M1))) & INLAY_DTYPE_BIT(to)) != 0;

    if (from == INLAY_DOUBLE)
        return INLAY_DOUBLE;
    if (from == INLAY_UINT64)
        return to_integer ? INLAY_INT64 : INLAY_DOUBLE;
    return (bit & WIDE_INTEGERS) != 0 ? INLAY_INT64 : INLAY_FLOAT;
}

static inlay_status cast_numbers(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const cast_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    inlay_dtype middle = middle_type(input->dtype, output->dtype);
    int64_t first = begin * ELEMENTWISE_BLOCK,
            last = end * ELEMENTWISE_BLOCK < input->count ? end * ELEMENTWISE_BLOCK : input->count;

    (void)worker;
    INLAY_CHECK(first <= last);
    /* Convert directly into the output if it has the middle type. */
    if (output->dtype == middle) {
        void *to = (char *)output->data + first * elementwise_bytes(middle);
        (void)elementwise_load(middle, input->dtype, input->data, first, last - first, to);
        return INLAY_OK;
    }
    int64_t buffer[ELEMENTWISE_BLOCK], step = input->dtype == middle ? last - first : ELEMENTWISE_BLOCK;
    for (int64_t i = first; i < last; i += step) {
        int64_t count = last - i < step ? last - i : step;
        const void *from = elementwise_load(middle, input->dtype, input->data, i, count, buffer);
        if (middle == INLAY_FLOAT)
            convert_from_f32(output->dtype, output->data, i, count, from, state->how);
        else if (middle == INLAY_DOUBLE)
            convert_from_f64(output->dtype, output->data, i, count, from, state->how);
        else
            convert_from_i64(output->dtype, output->data, i, count, from, state->how);
    }
    return INLAY_OK;
}

/* Formats x with `precision` digits as d[.]ddde+dd of the current locale. Returns whether the text reads back as x. */
static bool digits_suffice(char *text, size_t capacity, int precision, double value, bool single)
{
    (void)snprintf(text, capacity, "%.*e", precision - 1, value);
    double back = strtod(text, NULL);
    return single ? (float)back == (float)value : back == value;
}

/* Writes a finite value with the fewest digits that read back as the same value. The form is that of printf's "%.8g",
 * or of "%.Ng" if N > 8 digits are needed: positional from 1e-4 to 1e8, otherwise d.ddde-dd. Returns the length; text
 * has room for 40 bytes. */
static size_t write_float(char *text, double value, bool single)
{
    char scientific[48], digits[20] = "";
    int precision = 1, count = 0, limit = single ? 9 : 17;
    size_t length = 0;

    INLAY_CHECK(isfinite(value));
    while (!digits_suffice(scientific, sizeof scientific, precision, value, single) && precision < limit)
        precision++;
    const char *character = scientific;
    if (*character == '-')
        character++;
    for (; *character != '\0' && *character != 'e'; character++)
        if (isdigit((unsigned char)*character) && count < 18)
            digits[count++] = *character;
    int exponent = *character == 'e' ? (int)strtol(character + 1, NULL, 10) : 0;
    INLAY_CHECK(count > 0);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (signbit(value))
        text[length++] = '-';
    if (exponent < -4 || exponent >= (count > 8 ? count : 8)) {
        text[length++] = digits[0];
        if (count > 1)
            text[length++] = '.';
        for (int i = 1; i < count; i++)
            text[length++] = digits[i];
        return length + (size_t)snprintf(text + length, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    int before = exponent >= 0 ? exponent + 1 : 0; /* digits before the decimal point */
    if (before == 0)
        text[length++] = '0';
    for (int i = 0; i < before; i++)
        text[length++] = i < count ? digits[i] : '0';
    if (before < count)
        text[length++] = '.';
    for (int i = exponent + 1; i < 0; i++)
        text[length++] = '0';
    for (int i = before; i < count; i++)
        text[length++] = digits[i];
    return length;
}

static size_t write_number(char *text, const kit_tensor *input, int64_t index)
{
    uint64_t bit = INLAY_DTYPE_BIT(input->dtype);
    double value;

    if (input->dtype == INLAY_UINT64)
        return (size_t)snprintf(text, 40, "%llu", (unsigned long long)((const uint64_t *)input->data)[index]);
    if ((bit & (KIT_INTEGERS | KIT_SUBBYTE) & ~KIT_BIT(FLOAT4E2M1)) != 0)
        return (size_t)snprintf(text, 40, "%lld", (long long)convert_get_i64(input->dtype, input->data, index));
    value = convert_get_f64(input->dtype, input->data, index);
    if (isnan(value))
        return (size_t)snprintf(text, 40, "NaN");
    if (isinf(value))
        return (size_t)snprintf(text, 40, value < 0 ? "-INF" : "INF");
    return write_float(text, value, input->dtype != INLAY_DOUBLE);
}

static inlay_status numbers_to_strings(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    inlay_str *string = call->out[0].data;

    for (int64_t i = 0; i < input->count; i++) {
        char text[64];
        size_t bytes = write_number(text, input, i);
        char *kept = kit_alloc_string(call, bytes);

        if (kept == NULL)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for strings");
        memcpy(kept, text, bytes);
        string[i] = (inlay_str){ kept, bytes };
    }
    return INLAY_OK;
}

/* Parses the number in the string; returns false if it is not a number. *out_exact: the number is written as an
 * integer, and *integer contains its 64 bits. */
static bool read_number(inlay_str string, locale_t c_only, double *value, uint64_t *integer, bool *out_exact)
{
    char text[512], *end = text, *end_integer = text;

    while (string.bytes > 0 && isspace((unsigned char)string.data[0])) {
        string.data++;
        string.bytes--;
    }
    while (string.bytes > 0 && isspace((unsigned char)string.data[string.bytes - 1]))
        string.bytes--;
    if (string.bytes == 0 || string.bytes >= sizeof text)
        return false;
    memcpy(text, string.data, (size_t)string.bytes);
    text[string.bytes] = '\0';
    if (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0) {
        *integer = tolower((unsigned char)text[0]) == 't';
        *value = (double)*integer;
        *out_exact = true;
        return true;
    }
    *value = strtod_l(text, &end, c_only);
    if (end != text + string.bytes)
        return false;
    *integer = text[0] == '-' ? (uint64_t)strtoll(text, &end_integer, 10) : (uint64_t)strtoull(text, &end_integer, 10);
    *out_exact = end_integer == end;
    return true;
}

static inlay_status strings_to_numbers(const kit_call *call)
{
    const cast_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    bool floats = ((KIT_FLOATS | KIT_FLOAT8 | KIT_BIT(FLOAT4E2M1)) & INLAY_DTYPE_BIT(output->dtype)) != 0;

    for (int64_t i = 0; i < input->count; i++) {
        inlay_str text = ((const inlay_str *)input->data)[i];
        double value = 0;
        uint64_t integer = 0;
        bool exact = false;

        if (!read_number(text, state->c_only, &value, &integer, &exact))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Cast: element %lld, '%.*s', is not a number",
                              (long long)i, (int)(text.bytes < 60 ? text.bytes : 60),
                              text.data != NULL ? text.data : "");
        if (floats || !exact || (output->dtype == INLAY_BOOL && integer == 0)) {
            convert_from_f64(output->dtype, output->data, i, 1, &value, state->how);
        } else {
            int64_t bits = (int64_t)integer;
            convert_from_i64(output->dtype, output->data, i, 1, &bits, state->how);
        }
    }
    return INLAY_OK;
}

static inlay_status run_copy(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];

    if (output->data != input->data)
        memmove(output->data, input->data, kit_bytes(input->dtype, input->count));
    return INLAY_OK;
}

static inlay_status run_cast(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    int64_t blocks = input->count / ELEMENTWISE_BLOCK + (input->count % ELEMENTWISE_BLOCK != 0);

    if (input->dtype == output->dtype)
        return run_copy(call);
    if (output->dtype == INLAY_STRING)
        return numbers_to_strings(call);
    if (input->dtype == INLAY_STRING)
        return strings_to_numbers(call);
    return kit_parallel(call, blocks, CAST_GRAIN, cast_numbers, (void *)(uintptr_t)call);
}

/* BitCast-26: the same bits with another type of the same width. */
static bool supports_bit_cast(const kit_node *node, kit_refusal *why)
{
    if (inlay_dtype_bits(kit_input_dtype(node, 0)) == inlay_dtype_bits(kit_output_dtype(node, 0)))
        return true;
    return kit_refuse(why, INLAY_REFUSE_DTYPE, "cast between types of the same width", "BitCast from %s to %s",
                      inlay_dtype_name(kit_input_dtype(node, 0)), inlay_dtype_name(kit_output_dtype(node, 0)));
}

#define CASTABLE (~KIT_COMPLEX & ((1u << INLAY_DTYPE_COUNT) - 2))
static const kit_kernel kernels[] = {
    { .op_type = "Cast",
      .in_types = { CASTABLE },
      .out_types = { CASTABLE },
      .prepare = prepare_cast,
      .release = release_cast,
      .run = run_cast },
    { .op_type = "CastLike",
      .in_types = { CASTABLE, CASTABLE },
      .out_types = { CASTABLE },
      .prepare = prepare_cast,
      .release = release_cast,
      .run = run_cast },
    { .op_type = "BitCast", .supports = supports_bit_cast, .run = run_copy },
};
const kit_table OPERATOR(operators_cast) = { kernels, KIT_COUNT(kernels) };

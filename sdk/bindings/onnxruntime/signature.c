/* The schema of a custom operator (OrtCustomOp) in the notation of inlay/plugin.h. */
#include "custom.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STATED = 9 }; /* the largest minimum count that the notation of inlay/plugin.h can state */

typedef struct text_out {
    char text[ORT_SIGNATURE];
    size_t bytes; /* of the complete text; at least sizeof text if it was truncated */
} text_out;

INLAY_PRINTF(2, 3)
static void put(text_out *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (out->bytes < sizeof out->text)
        out->bytes += (size_t)vsnprintf(out->text + out->bytes, sizeof out->text - out->bytes, format, args);
    va_end(args);
}

static OrtCustomOpInputOutputCharacteristic characteristic(const OrtCustomOp *op, bool output, size_t index)
{
    OrtCustomOpInputOutputCharacteristic (*get)(const OrtCustomOp *, size_t) =
        output ? op->GetOutputCharacteristic : op->GetInputCharacteristic;

    return op->version >= 8 && get != NULL ? get(op, index) : ORT_REQUIRED;
}

/* The least number of values of a variadic input or output. */
static size_t variadic_least(const OrtCustomOp *op, bool output)
{
    int (*arity)(const OrtCustomOp *) = output ? op->GetVariadicOutputMinArity : op->GetVariadicInputMinArity;
    int least = op->version >= 14 && arity != NULL ? arity(op) : 1;

    return least > 0 ? (size_t)least : 0;
}

size_t ort_custom_least(const OrtCustomOp *op, bool output)
{
    size_t count = output ? op->GetOutputTypeCount(op) : op->GetInputTypeCount(op);
    bool variadic = count > 0 && characteristic(op, output, count - 1) == ORT_VARIADIC;

    return variadic && variadic_least(op, output) > MOST_STATED ? count - 1 + variadic_least(op, output) : 0;
}

/* Writes the mark of an optional or variadic input or output in the notation of inlay/plugin.h: "?", or "*2" (at least
 * two of one type), or "%1" (at least one, of any types). */
static void put_option(text_out *out, const OrtCustomOp *op, bool output, size_t index)
{
    int (*same)(const OrtCustomOp *) = output ? op->GetVariadicOutputHomogeneity : op->GetVariadicInputHomogeneity;
    size_t least = variadic_least(op, output);
    bool mixed = op->version >= 14 && same != NULL && same(op) == 0;

    switch (characteristic(op, output, index)) {
    case ORT_OPTIONAL:
        put(out, "?");
        break;
    case ORT_VARIADIC:
        put(out, "%c%zu", mixed ? '%' : '*', least < MOST_STATED ? least : (size_t)MOST_STATED);
        break;
    default:
        break;
    }
}

OrtStatus *ort_custom_signature(const OrtCustomOp *op, char text[ORT_SIGNATURE])
{
    size_t inputs = op->GetInputTypeCount(op), outputs = op->GetOutputTypeCount(op);
    long first_any = -1;
    text_out all = { .bytes = 0 }, types = { .bytes = 0 }, *out = &all;

    for (size_t i = 0; i < inputs; i++) {
        ONNXTensorElementDataType type = op->GetInputType(op, i);

        put(out, "%sx%zu", i > 0 ? ", " : "", i);
        put_option(out, op, false, i);
        if (type != 0) {
            put(out, ":%s", inlay_dtype_name(ort_dtype(type)));
            continue;
        }
        put(out, ":T%zu", i);
        put(&types, "%sT%zu=@all_ir13", types.bytes > 0 ? ", " : "", i);
        if (first_any < 0)
            first_any = (long)i;
    }
    put(out, " -> ");
    for (size_t i = 0; i < outputs; i++) {
        ONNXTensorElementDataType type = op->GetOutputType(op, i);

        put(out, "%sy%zu", i > 0 ? ", " : "", i);
        put_option(out, op, true, i);
        if (type != 0) {
            put(out, ":%s", inlay_dtype_name(ort_dtype(type)));
        } else if (first_any >= 0 && !ort_custom_infers(op)) {
            put(out, ":T%ld", first_any);
        } else {
            put(out, ":U%zu", i);
            put(&types, "%sU%zu=@all_ir13", types.bytes > 0 ? ", " : "", i);
        }
    }
    put(out, "; %s; ...", types.text);
    if (out->bytes >= sizeof out->text || types.bytes >= sizeof types.text)
        return ort_fail(ORT_INVALID_ARGUMENT, "custom operator %s has too many inputs and outputs", op->GetName(op));
    memcpy(text, out->text, out->bytes + 1);
    return NULL;
}

uint32_t ort_custom_start_version(const OrtCustomOp *op)
{
    int version = op->version >= 18 && op->GetStartVersion != NULL ? op->GetStartVersion(op) : 1;

    return version > 0 ? (uint32_t)version : 1;
}

/* The names of element types in .npy files, and writing; npy_load.c reads the files. */
#include "data/npy.h"
#include "inlay/check.h"
#include "base/checked.h"
#include "base/output.h"
#include "base/utf8.h"
#include "data/npy_format.h"

const char npy_magic[6] = { '\x93', 'N', 'U', 'M', 'P', 'Y' };

const npy_stored npy_stored_as[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = { 'f', 4, true },         [INLAY_UINT8] = { 'u', 1, true },
    [INLAY_INT8] = { 'i', 1, true },          [INLAY_UINT16] = { 'u', 2, true },
    [INLAY_INT16] = { 'i', 2, true },         [INLAY_INT32] = { 'i', 4, true },
    [INLAY_INT64] = { 'i', 8, true },         [INLAY_STRING] = { 'U', 4, true },
    [INLAY_BOOL] = { 'b', 1, true },          [INLAY_FLOAT16] = { 'f', 2, true },
    [INLAY_DOUBLE] = { 'f', 8, true },        [INLAY_UINT32] = { 'u', 4, true },
    [INLAY_UINT64] = { 'u', 8, true },        [INLAY_COMPLEX64] = { 'c', 8, true },
    [INLAY_COMPLEX128] = { 'c', 16, true },   [INLAY_BFLOAT16] = { 'u', 2, false },
    [INLAY_FLOAT8E4M3FN] = { 'u', 1, false }, [INLAY_FLOAT8E4M3FNUZ] = { 'u', 1, false },
    [INLAY_FLOAT8E5M2] = { 'u', 1, false },   [INLAY_FLOAT8E5M2FNUZ] = { 'u', 1, false },
    [INLAY_UINT4] = { 'u', 1, false },        [INLAY_INT4] = { 'i', 1, false },
    [INLAY_FLOAT4E2M1] = { 'u', 1, false },   [INLAY_FLOAT8E8M0] = { 'u', 1, false },
    [INLAY_UINT2] = { 'u', 1, false },        [INLAY_INT2] = { 'i', 1, false },
};

const char *npy_note(inlay_dtype dtype)
{
    if (inlay_dtype_bits(dtype) == 0 || npy_stored_as[dtype].exact)
        return NULL;
    if (inlay_dtype_bits(dtype) < 8)
        return "numpy does not have this type: one element per byte";
    return "numpy does not have this type: the bits are stored as an unsigned integer";
}

/* Decodes one code point; false if the string is not valid UTF-8 at that position. */
static bool next_code_point(const inlay_str *string, uint64_t *at, uint32_t *out)
{
    const size_t bytes = utf8_get(string->data + *at, (size_t)(string->bytes - *at), out);

    *at += bytes;
    return bytes > 0;
}

/* The width of the longest string: in code points, or in bytes if *out_utf8 becomes false. At least 1. */
static uint64_t string_width(const inlay_str *texts, int64_t count, bool *out_utf8)
{
    uint64_t points = 1, bytes = 1;

    *out_utf8 = true;
    for (int64_t i = 0; i < count; i++) {
        uint64_t length = 0;
        uint32_t point;
        for (uint64_t at = 0; at < texts[i].bytes && *out_utf8; length++)
            *out_utf8 = next_code_point(&texts[i], &at, &point);
        points = length > points ? length : points;
        bytes = texts[i].bytes > bytes ? texts[i].bytes : bytes;
    }
    return *out_utf8 ? points : bytes;
}

static void write_strings(FILE *file, const inlay_str *texts, int64_t count, uint64_t width, bool utf8)
{
    static const char zeros[4];

    for (int64_t i = 0; i < count; i++) {
        uint64_t written = 0;
        if (utf8) {
            uint32_t point = 0;
            for (uint64_t at = 0; at < texts[i].bytes && next_code_point(&texts[i], &at, &point); written++)
                (void)fwrite(&point, 4, 1, file);
        } else {
            written = fwrite(texts[i].data, 1, texts[i].bytes, file);
        }
        for (; written < width; written++)
            (void)fwrite(zeros, utf8 ? 4 : 1, 1, file);
    }
}

static void write_unpacked(FILE *file, const inlay_tensor_view *view, int64_t count)
{
    uint32_t bits = inlay_dtype_bits(view->dtype);
    bool is_signed = view->dtype == INLAY_INT4 || view->dtype == INLAY_INT2;

    for (int64_t i = 0; i < count; i++) {
        uint64_t bit = (uint64_t)i * bits;
        unsigned code = ((const uint8_t *)view->data)[bit / 8] >> (bit % 8) & ((1u << bits) - 1);
        if (is_signed && code >> (bits - 1))
            code |= 0xffu << bits & 0xff;
        (void)fputc((int)code, file);
    }
}

/* Writes the header, padded like numpy's so that the data starts at a multiple of 64. */
static void write_header(FILE *file, const char *descr, const inlay_tensor_view *view)
{
    char text[INLAY_MAX_RANK * 22 + 128];
    size_t used = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    size_t total;

    for (uint32_t i = 0; i < view->rank; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%lld,%s", (long long)view->dims[i],
                                 i + 1 < view->rank ? " " : "");
    used += (size_t)snprintf(text + used, sizeof text - used, "), }");
    total = (10 + used + 1 + 63) / 64 * 64;
    INLAY_CHECK(used + 11 <= total && used < sizeof text);
    (void)fwrite(npy_magic, 1, sizeof npy_magic, file);
    (void)fputc(1, file);
    (void)fputc(0, file);
    (void)fputc((int)((total - 10) & 0xff), file);
    (void)fputc((int)((total - 10) >> 8), file);
    (void)fwrite(text, 1, used, file);
    for (size_t i = 10 + used; i + 1 < total; i++)
        (void)fputc(' ', file);
    (void)fputc('\n', file);
}

static inlay_status save(const char *path, const inlay_tensor_view *tensor, bool is_unsynced, inlay_diag *diag)
{
    npy_stored stored;
    uint64_t width = 0;
    bool utf8 = false;
    int64_t count;
    char descr[32];
    output_file file;
    inlay_status status;

    if (inlay_dtype_bits(tensor->dtype) == 0 || tensor->rank > INLAY_MAX_RANK ||
        !dims_count(tensor->dims, tensor->rank, &count))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: not a tensor that can be written", path);
    stored = npy_stored_as[tensor->dtype];
    if (tensor->dtype == INLAY_STRING) {
        width = string_width(tensor->data, count, &utf8);
        (void)snprintf(descr, sizeof descr, "%s%llu", utf8 ? "<U" : "|S", (unsigned long long)width);
    } else {
        (void)snprintf(descr, sizeof descr, "%c%c%u", stored.bytes == 1 ? '|' : '<', stored.kind, stored.bytes);
    }
    INLAY_TRY(output_open_stream(&file, path, diag));
    file.is_unsynced = is_unsynced;
    write_header(file.to, descr, tensor);
    if (tensor->dtype == INLAY_STRING)
        write_strings(file.to, tensor->data, count, width, utf8);
    else if (inlay_dtype_bits(tensor->dtype) < 8)
        write_unpacked(file.to, tensor, count);
    else if (count > 0)
        (void)fwrite(tensor->data, stored.bytes, (size_t)count, file.to);
    status = output_commit(&file, NULL, diag);
done:
    return status;
}

inlay_status npy_save(const char *path, const inlay_tensor_view *tensor, inlay_diag *diag)
{
    return save(path, tensor, false, diag);
}

inlay_status npy_save_unsynced(const char *path, const inlay_tensor_view *tensor, inlay_diag *diag)
{
    return save(path, tensor, true, diag);
}

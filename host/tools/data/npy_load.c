/* The data of a .npy file, read and turned into a tensor. */
#include "base/checked.h"
#include "base/utf8.h"
#include "data/npy.h"
#include "data/npy_format.h"
#include <errno.h>
#include <string.h>

/* The type that the file's elements have, given what the caller would like. INLAY_UNDEFINED: none. */
static inlay_dtype dtype_of(const npy_header *h, inlay_dtype want)
{
    char kind = h->kind == 'V' ? 'u' : h->kind; /* ml_dtypes' bfloat16 and the like come as void */

    if (h->kind == 'U' || h->kind == 'S')
        return INLAY_STRING;
    if (inlay_dtype_bits(want) != 0 && !npy_stored_as[want].exact && npy_stored_as[want].bytes == h->item_bytes &&
        (npy_stored_as[want].kind == kind || h->kind == 'V'))
        return want;
    if (want == INLAY_FLOAT16 && h->item_bytes == 2 && kind == 'u')
        return want;
    for (inlay_dtype t = 1; t < INLAY_DTYPE_COUNT; t++)
        if (npy_stored_as[t].exact && npy_stored_as[t].kind == h->kind && npy_stored_as[t].bytes == h->item_bytes)
            return t;
    return INLAY_UNDEFINED;
}

static void swap_bytes(unsigned char *data, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++, data += bytes) {
        for (size_t low = 0, high = bytes - 1; low < high; low++, high--) {
            unsigned char t = data[low];
            data[low] = data[high];
            data[high] = t;
        }
    }
}

/* Column-major to row-major. */
static void *reorder(const npy_header *h, const unsigned char *data, int64_t count, struct arena *a)
{
    size_t bytes = (size_t)h->item_bytes;
    unsigned char *out = arena_array(a, count > 0 ? (size_t)count : 1, bytes > 0 ? bytes : 1);
    int64_t stride[INLAY_MAX_RANK], index[INLAY_MAX_RANK] = { 0 }, from = 0;

    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < h->rank; i++)
        stride[i] = i == 0 ? 1 : stride[i - 1] * h->dims[i - 1];
    for (int64_t n = 0; n < count; n++) {
        memcpy(out + (size_t)n * bytes, data + (size_t)from * bytes, bytes);
        for (uint32_t d = h->rank; d-- > 0;) {
            from += stride[d];
            if (++index[d] < h->dims[d])
                break;
            from -= stride[d] * h->dims[d];
            index[d] = 0;
        }
    }
    return out;
}

/* numpy pads strings with NULs to one width. */
static inlay_status read_strings(const npy_header *h, const char *path, const unsigned char *data, int64_t count,
                                 struct arena *a, inlay_str **out, inlay_diag *diag)
{
    size_t width = h->kind == 'U' ? 4 : 1, length = (size_t)h->item_bytes / width;
    inlay_str *texts = arena_array(a, (size_t)count + 1, sizeof *texts);

    for (int64_t i = 0; texts != NULL && i < count; i++, data += h->item_bytes) {
        size_t n = length, used = 0;
        char *text;

        for (; n > 0; n--) {
            static const unsigned char zeros[4];
            if (memcmp(data + (n - 1) * width, zeros, width) != 0)
                break;
        }
        text = arena_alloc(a, n * width + 1);
        if (text == NULL)
            texts = NULL;
        for (size_t k = 0; text != NULL && k < n; k++) {
            uint32_t c = data[k];
            size_t put = 1;
            if (width == 4) {
                memcpy(&c, data + 4 * k, 4);
                put = utf8_put(text + used, c);
            } else {
                text[used] = (char)c;
            }
            if (put == 0)
                return inlay_fail(diag, INLAY_IO_ERROR, "%s: element %lld holds U+%X, which is no character", path,
                                  (long long)i, c);
            used += put;
        }
        if (text != NULL)
            texts[i] = (inlay_str){ text, used };
    }
    *out = texts;
    return texts != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for the strings", path);
}

/* One element a byte to packed, low bits first. */
static void pack(unsigned char *data, int64_t count, uint32_t bits)
{
    uint32_t per_byte = 8 / bits;

    for (int64_t i = 0; i < count; i++) {
        unsigned code = data[i] & ((1u << bits) - 1), shift = (unsigned)(i % per_byte) * bits;
        unsigned before = shift == 0 ? 0 : data[i / per_byte];
        data[i / per_byte] = (unsigned char)(before | code << shift);
    }
}

/* Little-endian and row-major, whatever the file has. NULL: no memory. */
static unsigned char *native_order(const npy_header *h, unsigned char *data, int64_t count, struct arena *a)
{
    const size_t n = (size_t)count, bytes = (size_t)h->item_bytes;

    if (h->swap && h->kind == 'c')
        swap_bytes(data, n * 2, bytes / 2);
    else if (h->swap && h->kind == 'U')
        swap_bytes(data, n * bytes / 4, 4);
    else if (h->swap && h->kind != 'S' && bytes > 1)
        swap_bytes(data, n, bytes);
    return h->fortran && h->rank > 1 ? reorder(h, data, count, a) : data;
}

/* The elements that the header announces, from where the file stands; left bytes are there. */
static inlay_status load_elements(FILE *f, const npy_header *h, const char *path, inlay_dtype want, uint64_t left,
                                  struct arena *a, inlay_tensor_view *out, inlay_diag *diag)
{
    size_t bytes = (size_t)h->item_bytes;
    const inlay_dtype dtype = dtype_of(h, want);
    int64_t count, *dims;
    unsigned char *data;
    inlay_status status = INLAY_OK;

    if (dtype == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: ONNX has no type for numpy's '%c%llu'", path, h->kind,
                          (unsigned long long)h->item_bytes);
    if (!dims_count(h->dims, h->rank, &count) || !mul_size(&bytes, (size_t)count) || bytes > left ||
        (dtype == INLAY_STRING && (uint64_t)count > SIZE_MAX / 64))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file has %llu bytes of data, its shape needs more", path,
                          (unsigned long long)left);
    /* Strings of width 0 need no bytes at all, so the file's size does not bound their number. */
    if (h->item_bytes == 0 && count > 1 << 20)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s: %lld empty strings", path, (long long)count);
    data = arena_alloc(a, bytes);
    dims = arena_copy(a, h->dims, sizeof h->dims);
    if (data == NULL || dims == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, bytes);
    INLAY_TRY(npy_read_exactly(f, path, data, bytes, diag));
    data = native_order(h, data, count, a);
    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, bytes);
    *out = (inlay_tensor_view){ .data = data, .dims = dims, .rank = h->rank, .dtype = dtype };
    if (dtype == INLAY_STRING) {
        inlay_str *texts = NULL;
        INLAY_TRY(read_strings(h, path, data, count, a, &texts, diag));
        out->data = texts;
    } else if (dtype == INLAY_BOOL) {
        for (int64_t i = 0; i < count; i++)
            data[i] = data[i] != 0;
    } else if (inlay_dtype_bits(dtype) < 8) {
        pack(data, count, inlay_dtype_bits(dtype));
    }
    out->bytes = ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
done:
    return status;
}

inlay_status npy_load_file(FILE *f, const char *path, inlay_dtype want, struct arena *a, inlay_tensor_view *out,
                           inlay_diag *diag)
{
    uint64_t left = 0;
    npy_header h = { 0 };
    inlay_status status;

    *out = (inlay_tensor_view){ 0 };
    INLAY_TRY(npy_read_header(f, path, a, &h, &left, diag));
    INLAY_TRY(load_elements(f, &h, path, want, left, a, out, diag));
done:
    return status;
}

inlay_status npy_load(const char *path, inlay_dtype want, struct arena *a, inlay_tensor_view *out, inlay_diag *diag)
{
    FILE *f = fopen(path, "rbe");
    inlay_status status;

    if (f == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    status = npy_load_file(f, path, want, a, out, diag);
    fclose(f);
    return status;
}

inlay_status npy_load_rows(FILE *f, const char *path, inlay_dtype want, int64_t first, int64_t count, struct arena *a,
                           inlay_tensor_view *out, inlay_diag *diag)
{
    npy_header h = { 0 };
    uint64_t left = 0, row = 0, skip = 0;
    int64_t all = 0;
    inlay_status status;

    *out = (inlay_tensor_view){ 0 };
    rewind(f);
    INLAY_TRY(npy_read_header(f, path, a, &h, &left, diag));
    if (h.rank == 0 || first < 0 || count < 0 || h.dims[0] - first < count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: has no rows %lld to %lld", path, (long long)first,
                          (long long)(first + count - 1));
    if (h.fortran && h.rank > 1)
        return inlay_fail(diag, INLAY_IO_ERROR,
                          "%s: rows of an array in Fortran order cannot be read one by one; save "
                          "it with numpy.ascontiguousarray",
                          path);
    if (!dims_count(h.dims + 1, h.rank - 1, &all) || __builtin_mul_overflow((uint64_t)all, h.item_bytes, &row) ||
        __builtin_mul_overflow(row, (uint64_t)first, &skip) || skip > left || fseeko(f, (off_t)skip, SEEK_CUR) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file has %llu bytes of data, its shape needs more", path,
                          (unsigned long long)left);
    h.dims[0] = count;
    status = load_elements(f, &h, path, want, left - skip, a, out, diag);
done:
    return status;
}

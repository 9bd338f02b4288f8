/* The data of a .npy file, read and turned into a tensor. */
#include "base/checked.h"
#include "base/utf8.h"
#include "data/npy.h"
#include "data/npy_format.h"
#include <errno.h>
#include <string.h>

/* The type that the file's elements have, given what the caller would like. INLAY_UNDEFINED: none. */
static inlay_dtype dtype_of(const npy_header *header, inlay_dtype want)
{
    char kind = header->kind == 'V' ? 'u' : header->kind; /* ml_dtypes' bfloat16 and the like come as void */

    if (header->kind == 'U' || header->kind == 'S')
        return INLAY_STRING;
    if (inlay_dtype_bits(want) != 0 && !npy_stored_as[want].exact && npy_stored_as[want].bytes == header->item_bytes &&
        (npy_stored_as[want].kind == kind || header->kind == 'V'))
        return want;
    if (want == INLAY_FLOAT16 && header->item_bytes == 2 && kind == 'u')
        return want;
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (npy_stored_as[dtype].exact && npy_stored_as[dtype].kind == header->kind &&
            npy_stored_as[dtype].bytes == header->item_bytes)
            return dtype;
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
static void *reorder(const npy_header *header, const unsigned char *data, int64_t count, struct arena *arena)
{
    size_t bytes = (size_t)header->item_bytes;
    unsigned char *out = arena_array(arena, count > 0 ? (size_t)count : 1, bytes > 0 ? bytes : 1);
    int64_t stride[INLAY_MAX_RANK], index[INLAY_MAX_RANK] = { 0 }, from = 0;

    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < header->rank; i++)
        stride[i] = i == 0 ? 1 : stride[i - 1] * header->dims[i - 1];
    for (int64_t n = 0; n < count; n++) {
        memcpy(out + (size_t)n * bytes, data + (size_t)from * bytes, bytes);
        for (uint32_t d = header->rank; d-- > 0;) {
            from += stride[d];
            if (++index[d] < header->dims[d])
                break;
            from -= stride[d] * header->dims[d];
            index[d] = 0;
        }
    }
    return out;
}

/* numpy pads strings with NULs to one width. */
static inlay_status read_strings(const npy_header *header, const char *path, const unsigned char *data, int64_t count,
                                 struct arena *arena, inlay_str **out, inlay_diag *diag)
{
    size_t width = header->kind == 'U' ? 4 : 1, length = (size_t)header->item_bytes / width;
    inlay_str *texts = arena_array(arena, (size_t)count + 1, sizeof *texts);

    for (int64_t i = 0; texts != NULL && i < count; i++, data += header->item_bytes) {
        size_t n = length, used = 0;
        char *text;

        for (; n > 0; n--) {
            static const unsigned char zeros[4];
            if (memcmp(data + (n - 1) * width, zeros, width) != 0)
                break;
        }
        text = arena_alloc(arena, n * width + 1);
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
static unsigned char *native_order(const npy_header *header, unsigned char *data, int64_t count, struct arena *arena)
{
    const size_t n = (size_t)count, bytes = (size_t)header->item_bytes;

    if (header->swap && header->kind == 'c')
        swap_bytes(data, n * 2, bytes / 2);
    else if (header->swap && header->kind == 'U')
        swap_bytes(data, n * bytes / 4, 4);
    else if (header->swap && header->kind != 'S' && bytes > 1)
        swap_bytes(data, n, bytes);
    return header->fortran && header->rank > 1 ? reorder(header, data, count, arena) : data;
}

/* The elements that the header announces, from where the file stands; left bytes are there. */
static inlay_status load_elements(FILE *file, const npy_header *header, const char *path, inlay_dtype want,
                                  uint64_t left, struct arena *arena, inlay_tensor_view *out, inlay_diag *diag)
{
    size_t bytes = (size_t)header->item_bytes;
    const inlay_dtype dtype = dtype_of(header, want);
    int64_t count, *dims;
    unsigned char *data;
    inlay_status status = INLAY_OK;

    if (dtype == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: ONNX has no type for numpy's '%c%llu'", path, header->kind,
                          (unsigned long long)header->item_bytes);
    if (!dims_count(header->dims, header->rank, &count) || !mul_size(&bytes, (size_t)count) || bytes > left ||
        (dtype == INLAY_STRING && (uint64_t)count > SIZE_MAX / 64))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file has %llu bytes of data, its shape needs more", path,
                          (unsigned long long)left);
    /* Strings of width 0 need no bytes at all, so the file's size does not bound their number. */
    if (header->item_bytes == 0 && count > 1 << 20)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s: %lld empty strings", path, (long long)count);
    data = arena_alloc(arena, bytes);
    dims = arena_copy(arena, header->dims, sizeof header->dims);
    if (data == NULL || dims == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, bytes);
    INLAY_TRY(npy_read_exactly(file, path, data, bytes, diag));
    data = native_order(header, data, count, arena);
    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, bytes);
    *out = (inlay_tensor_view){ .data = data, .dims = dims, .rank = header->rank, .dtype = dtype };
    if (dtype == INLAY_STRING) {
        inlay_str *texts = NULL;
        INLAY_TRY(read_strings(header, path, data, count, arena, &texts, diag));
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

inlay_status npy_load_file(FILE *file, const char *path, inlay_dtype want, struct arena *arena, inlay_tensor_view *out,
                           inlay_diag *diag)
{
    uint64_t left = 0;
    npy_header header = { 0 };
    inlay_status status;

    *out = (inlay_tensor_view){ 0 };
    INLAY_TRY(npy_read_header(file, path, arena, &header, &left, diag));
    INLAY_TRY(load_elements(file, &header, path, want, left, arena, out, diag));
done:
    return status;
}

inlay_status npy_load(const char *path, inlay_dtype want, struct arena *arena, inlay_tensor_view *out, inlay_diag *diag)
{
    FILE *file = fopen(path, "rbe");
    inlay_status status;

    if (file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    status = npy_load_file(file, path, want, arena, out, diag);
    fclose(file);
    return status;
}

inlay_status npy_load_rows(FILE *file, const char *path, inlay_dtype want, int64_t first, int64_t count,
                           struct arena *arena, inlay_tensor_view *out, inlay_diag *diag)
{
    npy_header header = { 0 };
    uint64_t left = 0, row = 0, skip = 0;
    int64_t all = 0;
    inlay_status status;

    *out = (inlay_tensor_view){ 0 };
    rewind(file);
    INLAY_TRY(npy_read_header(file, path, arena, &header, &left, diag));
    if (header.rank == 0 || first < 0 || count < 0 || header.dims[0] - first < count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: has no rows %lld to %lld", path, (long long)first,
                          (long long)(first + count - 1));
    if (header.fortran && header.rank > 1)
        return inlay_fail(diag, INLAY_IO_ERROR,
                          "%s: rows of an array in Fortran order cannot be read one by one; save "
                          "it with numpy.ascontiguousarray",
                          path);
    if (!dims_count(header.dims + 1, header.rank - 1, &all) ||
        __builtin_mul_overflow((uint64_t)all, header.item_bytes, &row) ||
        __builtin_mul_overflow(row, (uint64_t)first, &skip) || skip > left || fseeko(file, (off_t)skip, SEEK_CUR) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file has %llu bytes of data, its shape needs more", path,
                          (unsigned long long)left);
    header.dims[0] = count;
    status = load_elements(file, &header, path, want, left - skip, arena, out, diag);
done:
    return status;
}

/* Reads the data of a .npy file into a tensor. */
#include "base/checked.h"
#include "base/utf8.h"
#include "data/npy.h"
#include "data/npy_format.h"
#include "inlay/check.h"
#include <errno.h>
#include <string.h>

/* The type of the file's elements, with regard to the wanted type. INLAY_UNDEFINED: unsupported. */
static inlay_dtype dtype_of(const npy_header *header, inlay_dtype want)
{
    char kind = header->kind == 'V' ? 'u' : header->kind; /* bfloat16 and other types of ml_dtypes are stored as void */

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
            unsigned char swapped = data[low];
            data[low] = data[high];
            data[high] = swapped;
        }
    }
}

/* Converts column-major to row-major. */
static void *reorder(const npy_header *header, const unsigned char *data, int64_t count, struct arena *arena)
{
    size_t bytes = (size_t)header->item_bytes;
    unsigned char *out = arena_array(arena, count > 0 ? (size_t)count : 1, bytes > 0 ? bytes : 1);
    int64_t stride[INLAY_MAX_RANK], index[INLAY_MAX_RANK] = { 0 }, from = 0;

    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < header->rank; i++)
        stride[i] = i == 0 ? 1 : stride[i - 1] * header->dims[i - 1];
    for (int64_t i = 0; i < count; i++) {
        memcpy(out + (size_t)i * bytes, data + (size_t)from * bytes, bytes);
        for (uint32_t axis = header->rank; axis-- > 0;) {
            from += stride[axis];
            if (++index[axis] < header->dims[axis])
                break;
            from -= stride[axis] * header->dims[axis];
            index[axis] = 0;
        }
    }
    return out;
}

/* Reads strings, which numpy pads with NULs to the same width. */
static inlay_status read_strings(const npy_header *header, const char *path, const unsigned char *data, int64_t count,
                                 struct arena *arena, inlay_str **out, inlay_diag *diag)
{
    size_t width = header->kind == 'U' ? 4 : 1, length = (size_t)header->item_bytes / width;
    inlay_str *texts = arena_array(arena, (size_t)count + 1, sizeof *texts);

    for (int64_t i = 0; texts != NULL && i < count; i++, data += header->item_bytes) {
        size_t characters = length, used = 0;
        char *text;

        for (; characters > 0; characters--) {
            static const unsigned char zeros[4];
            if (memcmp(data + (characters - 1) * width, zeros, width) != 0)
                break;
        }
        text = arena_alloc(arena, characters * width + 1);
        if (text == NULL)
            texts = NULL;
        for (size_t k = 0; text != NULL && k < characters; k++) {
            uint32_t code = data[k];
            size_t put = 1;
            if (width == 4) {
                memcpy(&code, data + 4 * k, 4);
                put = utf8_put(text + used, code);
            } else {
                text[used] = (char)code;
            }
            if (put == 0)
                return inlay_fail(diag, INLAY_IO_ERROR, "%s: element %lld contains U+%X, which is not a character",
                                  path, (long long)i, code);
            used += put;
        }
        if (text != NULL)
            texts[i] = (inlay_str){ text, used };
    }
    *out = texts;
    return texts != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for the strings", path);
}

/* Packs elements of one byte in place, low bits first. */
static void pack_bits(unsigned char *data, int64_t count, uint32_t bits)
{
    uint32_t per_byte;

    INLAY_CHECK(bits > 0 && bits < 8 && 8 % bits == 0);
    per_byte = 8 / bits;

    for (int64_t i = 0; i < count; i++) {
        unsigned code = data[i] & ((1u << bits) - 1), shift = (unsigned)(i % per_byte) * bits;
        unsigned before = shift == 0 ? 0 : data[i / per_byte];
        data[i / per_byte] = (unsigned char)(before | code << shift);
    }
}

/* Converts to little-endian and row-major. NULL: out of memory. */
static unsigned char *native_order(const npy_header *header, unsigned char *data, int64_t count, struct arena *arena)
{
    const size_t elements = (size_t)count, bytes = (size_t)header->item_bytes;

    if (header->swap && header->kind == 'c')
        swap_bytes(data, elements * 2, bytes / 2);
    else if (header->swap && header->kind == 'U')
        swap_bytes(data, elements * bytes / 4, 4);
    else if (header->swap && header->kind != 'S' && bytes > 1)
        swap_bytes(data, elements, bytes);
    return header->fortran && header->rank > 1 ? reorder(header, data, count, arena) : data;
}

/* Reads the elements that the header announces, from the current position; `left` bytes remain in the file. */
static inlay_status load_elements(FILE *file, const npy_header *header, const char *path, inlay_dtype want,
                                  uint64_t left, struct arena *arena, inlay_tensor_view *out, inlay_diag *diag)
{
    size_t bytes = (size_t)header->item_bytes;
    const inlay_dtype dtype = dtype_of(header, want);
    int64_t count, *dims;
    unsigned char *data;
    inlay_status status = INLAY_OK;

    if (dtype == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: ONNX does not have numpy's type '%c%llu'", path, header->kind,
                          (unsigned long long)header->item_bytes);
    if (!dims_count(header->dims, header->rank, &count) || !mul_size(&bytes, (size_t)count) || bytes > left ||
        (dtype == INLAY_STRING && (uint64_t)count > SIZE_MAX / 64))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s has %llu bytes of data, but its shape needs more", path,
                          (unsigned long long)left);
    /* Strings of width 0 have no bytes, so the file's size does not limit their number. */
    if (header->item_bytes == 0 && count > 1 << 20)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s has %lld empty strings, more than 1048576", path,
                          (long long)count);
    data = arena_alloc(arena, bytes);
    dims = arena_copy(arena, header->dims, sizeof header->dims);
    if (data == NULL || dims == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for %zu bytes", path, bytes);
    INLAY_TRY(npy_read_exactly(file, path, data, bytes, diag));
    data = native_order(header, data, count, arena);
    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for %zu bytes", path, bytes);
    *out = (inlay_tensor_view){ .data = data, .dims = dims, .rank = header->rank, .dtype = dtype };
    if (dtype == INLAY_STRING) {
        inlay_str *texts = NULL;
        INLAY_TRY(read_strings(header, path, data, count, arena, &texts, diag));
        out->data = texts;
    } else if (dtype == INLAY_BOOL) {
        for (int64_t i = 0; i < count; i++)
            data[i] = data[i] != 0;
    } else if (inlay_dtype_bits(dtype) < 8) {
        pack_bits(data, count, inlay_dtype_bits(dtype));
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
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s does not have rows %lld to %lld", path, (long long)first,
                          (long long)(first + count - 1));
    if (header.fortran && header.rank > 1)
        return inlay_fail(diag, INLAY_IO_ERROR,
                          "%s is in Fortran order, so single rows cannot be read; save "
                          "it with numpy.ascontiguousarray",
                          path);
    if (!dims_count(header.dims + 1, header.rank - 1, &all) ||
        __builtin_mul_overflow((uint64_t)all, header.item_bytes, &row) ||
        __builtin_mul_overflow(row, (uint64_t)first, &skip) || skip > left || fseeko(file, (off_t)skip, SEEK_CUR) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s has %llu bytes of data, but its shape needs more", path,
                          (unsigned long long)left);
    header.dims[0] = count;
    status = load_elements(file, &header, path, want, left - skip, arena, out, diag);
done:
    return status;
}

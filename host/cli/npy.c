#include "cli/npy.h"
#include "base/checked.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HEADER_BYTES = 1 << 20 };
static const char magic[6] = { '\x93', 'N', 'U', 'M', 'P', 'Y' };

/* numpy's kind letter and size of each type. Types that numpy lacks carry what they are stored as. */
static const struct stored {
    char kind;
    uint8_t bytes;
    bool exact; /* false: numpy has no such type */
} stored_as[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = { 'f', 4, true },          [INLAY_UINT8] = { 'u', 1, true },
    [INLAY_INT8] = { 'i', 1, true },           [INLAY_UINT16] = { 'u', 2, true },
    [INLAY_INT16] = { 'i', 2, true },          [INLAY_INT32] = { 'i', 4, true },
    [INLAY_INT64] = { 'i', 8, true },          [INLAY_STRING] = { 'U', 4, true },
    [INLAY_BOOL] = { 'b', 1, true },           [INLAY_FLOAT16] = { 'f', 2, true },
    [INLAY_DOUBLE] = { 'f', 8, true },         [INLAY_UINT32] = { 'u', 4, true },
    [INLAY_UINT64] = { 'u', 8, true },         [INLAY_COMPLEX64] = { 'c', 8, true },
    [INLAY_COMPLEX128] = { 'c', 16, true },    [INLAY_BFLOAT16] = { 'u', 2, false },
    [INLAY_FLOAT8E4M3FN] = { 'u', 1, false },  [INLAY_FLOAT8E4M3FNUZ] = { 'u', 1, false },
    [INLAY_FLOAT8E5M2] = { 'u', 1, false },    [INLAY_FLOAT8E5M2FNUZ] = { 'u', 1, false },
    [INLAY_UINT4] = { 'u', 1, false },         [INLAY_INT4] = { 'i', 1, false },
    [INLAY_FLOAT4E2M1] = { 'u', 1, false },    [INLAY_FLOAT8E8M0] = { 'u', 1, false },
    [INLAY_UINT2] = { 'u', 1, false },         [INLAY_INT2] = { 'i', 1, false },
};

const char *npy_note(inlay_dtype dtype)
{
    if (inlay_dtype_bits(dtype) == 0 || stored_as[dtype].exact)
        return NULL;
    if (inlay_dtype_bits(dtype) < 8)
        return "numpy lacks this type: one element a byte";
    return "numpy lacks this type: its bits are in an unsigned integer type";
}

/* ------------------------------------------------------------------ reading the header */

typedef struct header {
    char kind; /* 'f' ... 'V' */
    bool swap; /* big-endian */
    bool fortran;
    uint64_t item_bytes;
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank;
} header;

/* The header is a Python dict of three known keys, in any order. This reads that much of Python. */
typedef struct scanner {
    const char *at;
    const char *path;
    inlay_diag *diag;
} scanner;

static void skip_space(scanner *s)
{
    while (*s->at == ' ' || *s->at == '\t' || *s->at == '\n')
        s->at++;
}

static bool accept(scanner *s, const char *token)
{
    size_t n = strlen(token);

    skip_space(s);
    if (strncmp(s->at, token, n) != 0)
        return false;
    s->at += n;
    return true;
}

static inlay_status malformed(const scanner *s, const char *expected)
{
    return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: the .npy header is malformed: expected %s", s->path,
                      expected);
}

/* A quoted string without escapes, at most bytes - 1 characters. */
static inlay_status scan_text(scanner *s, char *text, size_t bytes)
{
    size_t n = 0;
    char mark;

    skip_space(s);
    mark = *s->at;
    if (mark != '\'' && mark != '"')
        return malformed(s, "a quoted string");
    for (s->at++; *s->at != '\0' && *s->at != mark && n + 1 < bytes; s->at++)
        text[n++] = *s->at;
    text[n] = '\0';
    if (*s->at != mark)
        return malformed(s, "a short quoted string");
    s->at++;
    return INLAY_OK;
}

static inlay_status scan_shape(scanner *s, header *h)
{
    if (!accept(s, "("))
        return malformed(s, "a tuple as 'shape'");
    for (h->rank = 0; !accept(s, ")");) {
        char *end = NULL;
        long long value;

        skip_space(s);
        errno = 0;
        value = *s->at >= '0' && *s->at <= '9' ? strtoll(s->at, &end, 10) : -1;
        if (value < 0 || errno != 0)
            return malformed(s, "sizes of at least 0 in 'shape'");
        if (h->rank == INLAY_MAX_RANK)
            return inlay_fail(s->diag, INLAY_LIMIT_EXCEEDED, "%s: more than %d dimensions", s->path, INLAY_MAX_RANK);
        h->dims[h->rank++] = value;
        s->at = end;
        (void)accept(s, "L"); /* Python 2 wrote longs so */
        skip_space(s);
        if (!accept(s, ",") && *s->at != ')')
            return malformed(s, "',' or ')' in 'shape'");
    }
    return INLAY_OK;
}

/* "<f4", "|b1", ">U12". */
static inlay_status scan_descr(scanner *s, header *h)
{
    char text[32] = "";
    char *end = NULL;
    inlay_status status;

    skip_space(s);
    if (*s->at == '[' || *s->at == '(')
        return inlay_fail(s->diag, INLAY_IO_ERROR,
                          "%s: a structured array; save each field as an array of its own", s->path);
    INLAY_TRY(scan_text(s, text, sizeof text));
    h->swap = text[0] == '>';
    h->kind = strchr("<>|=", text[0]) != NULL && text[0] != '\0' ? text[1] : '\0';
    if (h->kind == '\0' || strchr("fiubcUSV", h->kind) == NULL) {
        return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: arrays of type '%s'%s cannot be read", s->path, text,
                          h->kind == 'O' ? " (Python objects)" : "");
    }
    errno = 0;
    h->item_bytes = text[2] >= '0' && text[2] <= '9' ? strtoull(text + 2, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || h->item_bytes > INT32_MAX)
        return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: unknown array type '%s'", s->path, text);
    if (h->kind == 'U')
        h->item_bytes *= 4; /* counted in code points */
done:
    return status;
}

static inlay_status scan_header(const char *path, const char *text, header *h, inlay_diag *diag)
{
    scanner s = { text, path, diag };
    unsigned seen = 0;
    char key[32];
    inlay_status status = INLAY_OK;

    *h = (header){ 0 };
    if (!accept(&s, "{"))
        return malformed(&s, "'{'");
    while (!accept(&s, "}")) {
        INLAY_TRY(scan_text(&s, key, sizeof key));
        if (!accept(&s, ":"))
            return malformed(&s, "':'");
        if (strcmp(key, "descr") == 0) {
            INLAY_TRY(scan_descr(&s, h));
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = accept(&s, "True");
            if (!h->fortran && !accept(&s, "False"))
                return malformed(&s, "True or False as 'fortran_order'");
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            INLAY_TRY(scan_shape(&s, h));
            seen |= 4;
        } else {
            return malformed(&s, "the keys descr, fortran_order and shape only");
        }
        skip_space(&s);
        if (!accept(&s, ",") && *s.at != '}')
            return malformed(&s, "',' or '}'");
    }
    if (seen != 7)
        return malformed(&s, "the keys descr, fortran_order and shape");
done:
    return status;
}

static inlay_status read_exactly(FILE *f, const char *path, void *data, size_t bytes, inlay_diag *diag)
{
    if (fread(data, 1, bytes, f) == bytes)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, ferror(f) ? strerror(errno) : "the file is cut short");
}

/* Reads up to the data. *out_left is the number of bytes that the file has from there. */
static inlay_status read_header(FILE *f, const char *path, arena *a, header *h, uint64_t *out_left, inlay_diag *diag)
{
    unsigned char start[12];
    size_t header_bytes, start_bytes = 10;
    struct stat info;
    char *text;
    inlay_status status;

    if (fstat(fileno(f), &info) != 0 || !S_ISREG(info.st_mode))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: not a regular file", path);
    INLAY_TRY(read_exactly(f, path, start, start_bytes, diag));
    if (memcmp(start, magic, sizeof magic) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: not a .npy file (it does not start with \\x93NUMPY)", path);
    if (start[6] < 1 || start[6] > 3) {
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: .npy version %u.%u; versions 1 to 3 can be read", path,
                          start[6], start[7]);
    }
    header_bytes = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        INLAY_TRY(read_exactly(f, path, start + 10, 2, diag));
        start_bytes = 12;
        header_bytes |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (header_bytes > MAX_HEADER_BYTES)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: a .npy header of %zu bytes; at most %d can be read", path,
                          header_bytes, MAX_HEADER_BYTES);
    if (start_bytes + header_bytes > (uint64_t)info.st_size)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file is cut short", path);
    text = arena_alloc(a, header_bytes + 1);
    if (text == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for the header", path);
    INLAY_TRY(read_exactly(f, path, text, header_bytes, diag));
    INLAY_TRY(scan_header(path, text, h, diag));
    *out_left = (uint64_t)info.st_size - start_bytes - header_bytes;
done:
    return status;
}

/* ------------------------------------------------------------------ reading the data */

/* The type that the file's elements have, given what the caller would like. INLAY_UNDEFINED: none. */
static inlay_dtype dtype_of(const header *h, inlay_dtype want)
{
    char kind = h->kind == 'V' ? 'u' : h->kind; /* ml_dtypes' bfloat16 and the like come as void */

    if (h->kind == 'U' || h->kind == 'S')
        return INLAY_STRING;
    if (inlay_dtype_bits(want) != 0 && !stored_as[want].exact && stored_as[want].bytes == h->item_bytes &&
        (stored_as[want].kind == kind || h->kind == 'V'))
        return want;
    if (want == INLAY_FLOAT16 && h->item_bytes == 2 && kind == 'u')
        return want;
    for (inlay_dtype t = 1; t < INLAY_DTYPE_COUNT; t++)
        if (stored_as[t].exact && stored_as[t].kind == h->kind && stored_as[t].bytes == h->item_bytes)
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
static void *reorder(const header *h, const unsigned char *data, int64_t count, arena *a)
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

/* One code point as UTF-8; the number of bytes, 0 if it is none. */
static size_t put_utf8(uint32_t c, char *out)
{
    if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000))
        return 0;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xff) | c);
    return n;
}

/* numpy pads strings with NULs to one width. */
static inlay_status read_strings(const header *h, const char *path, const unsigned char *data, int64_t count, arena *a,
                                 inlay_str **out, inlay_diag *diag)
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
                put = put_utf8(c, text + used);
            } else {
                text[used] = (char)c;
            }
            if (put == 0)
                return inlay_fail(diag, INLAY_IO_ERROR, "%s: element %lld holds U+%X, which is no character",
                                  path, (long long)i, c);
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

inlay_status npy_load(const char *path, inlay_dtype want, arena *a, inlay_tensor_view *out, inlay_diag *diag)
{
    FILE *f = fopen(path, "rbe");
    uint64_t left = 0;
    size_t bytes;
    int64_t count, *dims;
    unsigned char *data;
    inlay_dtype dtype;
    header h = { 0 };
    inlay_status status;

    *out = (inlay_tensor_view){ 0 };
    if (f == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    INLAY_TRY(read_header(f, path, a, &h, &left, diag));
    dtype = dtype_of(&h, want);
    if (dtype == INLAY_UNDEFINED) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: ONNX has no type for numpy's '%c%llu'", path, h.kind,
                            (unsigned long long)h.item_bytes);
        goto done;
    }
    bytes = (size_t)h.item_bytes;
    if (!dims_count(h.dims, h.rank, &count) || !mul_size(&bytes, (size_t)count) || bytes > left ||
        (dtype == INLAY_STRING && (uint64_t)count > SIZE_MAX / 64)) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: the file has %llu bytes of data, its shape needs more", path,
                            (unsigned long long)left);
        goto done;
    }
    /* Strings of width 0 need no bytes at all, so the file's size does not bound their number. */
    if (h.item_bytes == 0 && count > 1 << 20) {
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s: %lld empty strings", path, (long long)count);
        goto done;
    }
    data = arena_alloc(a, bytes);
    dims = arena_copy(a, h.dims, sizeof h.dims);
    if (data == NULL || dims == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, bytes);
        goto done;
    }
    INLAY_TRY(read_exactly(f, path, data, bytes, diag));
    if (h.swap && h.kind == 'c')
        swap_bytes(data, (size_t)count * 2, (size_t)h.item_bytes / 2);
    else if (h.swap && h.kind == 'U')
        swap_bytes(data, bytes / 4, 4);
    else if (h.swap && h.kind != 'S' && h.item_bytes > 1)
        swap_bytes(data, (size_t)count, (size_t)h.item_bytes);
    if (h.fortran && h.rank > 1)
        data = reorder(&h, data, count, a);
    if (data == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, bytes);
        goto done;
    }
    *out = (inlay_tensor_view){ .data = data, .dims = dims, .rank = h.rank, .dtype = dtype };
    if (dtype == INLAY_STRING) {
        inlay_str *texts = NULL;
        INLAY_TRY(read_strings(&h, path, data, count, a, &texts, diag));
        out->data = texts;
    } else if (dtype == INLAY_BOOL) {
        for (int64_t i = 0; i < count; i++)
            data[i] = data[i] != 0;
    } else if (inlay_dtype_bits(dtype) < 8) {
        pack(data, count, inlay_dtype_bits(dtype));
    }
    out->bytes = ((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8;
done:
    fclose(f);
    return status;
}

/* ------------------------------------------------------------------ writing */

/* Decodes one code point; false if s is not UTF-8 there. */
static bool next_code_point(const inlay_str *s, uint64_t *at, uint32_t *out)
{
    const unsigned char *p = (const unsigned char *)s->data + *at;
    uint64_t left = s->bytes - *at;
    uint32_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 ? 4 : 0;
    uint32_t c = n == 1 ? p[0] : n == 0 ? 0 : p[0] & (0xffu >> (n + 1));

    if (n == 0 || p[0] >= 0xf5 || n > left)
        return false;
    for (uint32_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return false;
        c = c << 6 | (p[i] & 0x3f);
    }
    if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) || (n == 4 && (c < 0x10000 || c >= 0x110000)))
        return false;
    *at += n;
    *out = c;
    return true;
}

/* The width that all strings fit: code points, or bytes when *out_utf8 turns out false. At least 1. */
static uint64_t string_width(const inlay_str *texts, int64_t count, bool *out_utf8)
{
    uint64_t points = 1, bytes = 1;

    *out_utf8 = true;
    for (int64_t i = 0; i < count; i++) {
        uint64_t n = 0;
        uint32_t c;
        for (uint64_t at = 0; at < texts[i].bytes && *out_utf8; n++)
            *out_utf8 = next_code_point(&texts[i], &at, &c);
        points = n > points ? n : points;
        bytes = texts[i].bytes > bytes ? texts[i].bytes : bytes;
    }
    return *out_utf8 ? points : bytes;
}

static void write_strings(FILE *f, const inlay_str *texts, int64_t count, uint64_t width, bool utf8)
{
    static const char zeros[4];

    for (int64_t i = 0; i < count; i++) {
        uint64_t n = 0;
        if (utf8) {
            uint32_t c = 0;
            for (uint64_t at = 0; at < texts[i].bytes && next_code_point(&texts[i], &at, &c); n++)
                (void)fwrite(&c, 4, 1, f);
        } else {
            n = fwrite(texts[i].data, 1, texts[i].bytes, f);
        }
        for (; n < width; n++)
            (void)fwrite(zeros, utf8 ? 4 : 1, 1, f);
    }
}

static void write_unpacked(FILE *f, const inlay_tensor_view *t, int64_t count)
{
    uint32_t bits = inlay_dtype_bits(t->dtype);
    bool is_signed = t->dtype == INLAY_INT4 || t->dtype == INLAY_INT2;

    for (int64_t i = 0; i < count; i++) {
        uint64_t bit = (uint64_t)i * bits;
        unsigned code = ((const uint8_t *)t->data)[bit / 8] >> (bit % 8) & ((1u << bits) - 1);
        if (is_signed && code >> (bits - 1))
            code |= 0xffu << bits & 0xff;
        (void)fputc((int)code, f);
    }
}

/* The header, padded so that the data starts at a multiple of 64 as numpy does it. */
static void write_header(FILE *f, const char *descr, const inlay_tensor_view *t)
{
    char text[INLAY_MAX_RANK * 22 + 128];
    size_t used = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    size_t total;

    for (uint32_t i = 0; i < t->rank; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%lld,%s", (long long)t->dims[i],
                                 i + 1 < t->rank ? " " : "");
    used += (size_t)snprintf(text + used, sizeof text - used, "), }");
    total = (10 + used + 1 + 63) / 64 * 64;
    (void)fwrite(magic, 1, sizeof magic, f);
    (void)fputc(1, f);
    (void)fputc(0, f);
    (void)fputc((int)((total - 10) & 0xff), f);
    (void)fputc((int)((total - 10) >> 8), f);
    (void)fwrite(text, 1, used, f);
    for (size_t i = 10 + used; i + 1 < total; i++)
        (void)fputc(' ', f);
    (void)fputc('\n', f);
}

inlay_status npy_save(const char *path, const inlay_tensor_view *tensor, inlay_diag *diag)
{
    struct stored s;
    uint64_t width = 0;
    bool utf8 = false, wrong;
    int64_t count;
    char descr[32];
    FILE *f;

    if (inlay_dtype_bits(tensor->dtype) == 0 || tensor->rank > INLAY_MAX_RANK ||
        !dims_count(tensor->dims, tensor->rank, &count))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: not a tensor that can be written", path);
    s = stored_as[tensor->dtype];
    if (tensor->dtype == INLAY_STRING) {
        width = string_width(tensor->data, count, &utf8);
        (void)snprintf(descr, sizeof descr, "%s%llu", utf8 ? "<U" : "|S", (unsigned long long)width);
    } else {
        (void)snprintf(descr, sizeof descr, "%c%c%u", s.bytes == 1 ? '|' : '<', s.kind, s.bytes);
    }
    f = fopen(path, "wbe");
    if (f == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    write_header(f, descr, tensor);
    if (tensor->dtype == INLAY_STRING)
        write_strings(f, tensor->data, count, width, utf8);
    else if (inlay_dtype_bits(tensor->dtype) < 8)
        write_unpacked(f, tensor, count);
    else if (count > 0)
        (void)fwrite(tensor->data, s.bytes, (size_t)count, f);
    wrong = ferror(f) != 0;
    wrong |= fclose(f) != 0;
    if (wrong) {
        int why = errno;
        (void)unlink(path);
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(why));
    }
    return INLAY_OK;
}

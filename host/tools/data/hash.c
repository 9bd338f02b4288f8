#include "data/hash.h"
#include "data/view.h"
#include <string.h>

/* Floating-point types; complex numbers have two of these parts per element. */
static const struct {
    inlay_dtype dtype;
    uint32_t bytes; /* of a part */
    uint64_t infinity;
} floats[] = {
    { INLAY_FLOAT, 4, 0x7f800000 },     { INLAY_DOUBLE, 8, 0x7ff0000000000000 },
    { INLAY_FLOAT16, 2, 0x7c00 },       { INLAY_BFLOAT16, 2, 0x7f80 },
    { INLAY_COMPLEX64, 4, 0x7f800000 }, { INLAY_COMPLEX128, 8, 0x7ff0000000000000 },
};

/* Adds numbers of `bytes` bytes, each as `width` bytes; NaN as infinity + 1. */
static void add_floats(struct sha256 *sha256, const char *data, uint64_t total, uint32_t bytes, uint32_t width,
                       uint64_t infinity)
{
    enum { PART = 512 };
    const uint64_t magnitude = (UINT64_C(1) << (8 * bytes - 1)) - 1, count = total / bytes;
    char part[PART * sizeof(uint64_t)];

    for (uint64_t at = 0; at < count; at += PART) {
        const uint64_t numbers = count - at < PART ? count - at : PART;

        for (uint64_t i = 0; i < numbers; i++) {
            uint64_t bits = 0;

            memcpy(&bits, data + (at + i) * bytes, bytes);
            bits = (bits & magnitude) > infinity ? infinity + 1 : bits;
            memcpy(part + i * width, &bits, width);
        }
        sha256_update(sha256, part, numbers * width);
    }
}

static bool has_nan32(const char *data, uint64_t bytes)
{
    uint32_t any = 0;

    for (uint64_t at = 0; at < bytes; at += sizeof any) {
        uint32_t bits;

        memcpy(&bits, data + at, sizeof bits);
        any |= (bits & 0x7fffffff) > 0x7f800000;
    }
    return any != 0;
}

/* width: of each float; 0: as many bytes as it has. */
static void add_elements(struct sha256 *sha256, const inlay_value *value, uint32_t width)
{
    const char *data = inlay_value_data(value);
    const uint64_t bytes = inlay_value_bytes(value);
    const inlay_dtype dtype = inlay_value_dtype(value);
    inlay_tensor_view view;

    if (dtype == INLAY_STRING && value_view(value, &view)) {
        const inlay_str *texts = view.data;

        for (int64_t i = 0; i < inlay_value_count(value); i++) {
            const uint64_t length = texts[i].bytes;

            sha256_update(sha256, &length, sizeof length);
            sha256_update(sha256, texts[i].data, length);
        }
        return;
    }
    if (data == NULL)
        return;
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        if (floats[i].dtype == dtype && (width != 0 || dtype != INLAY_FLOAT || has_nan32(data, bytes))) {
            add_floats(sha256, data, bytes, floats[i].bytes, width != 0 ? width : floats[i].bytes, floats[i].infinity);
            return;
        }
    sha256_update(sha256, data, bytes);
}

static void add_tensor(struct sha256 *sha256, const inlay_value *value, uint32_t width)
{
    const uint32_t of[] = { (uint32_t)inlay_value_dtype(value), inlay_value_rank(value) };

    sha256_update(sha256, of, sizeof of);
    sha256_update(sha256, inlay_value_dims(value), of[1] * sizeof(int64_t));
    add_elements(sha256, value, width);
}

void value_hash(struct sha256 *sha256, const inlay_value *value)
{
    const uint32_t kind = value == NULL ? 0 : inlay_value_kind(value);

    sha256_update(sha256, &kind, sizeof kind);
    if (kind == INLAY_KIND_TENSOR) {
        add_tensor(sha256, value, sizeof(uint64_t));
        return;
    }
    for (int64_t i = 0; value != NULL && i < inlay_value_count(value); i++)
        value_hash(sha256, inlay_value_item(value, (uint32_t)i));
}

void value_hash_hex(const inlay_value *value, char text[65])
{
    struct sha256 sha256;

    sha256_init(&sha256);
    value_hash(&sha256, value);
    sha256_hex(&sha256, text);
}

void value_hash_tensor(const inlay_value *value, char text[65])
{
    const uint32_t kind = INLAY_KIND_TENSOR;
    struct sha256 sha256;

    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR) {
        value_hash_hex(value, text);
        return;
    }
    sha256_init(&sha256);
    sha256_update(&sha256, &kind, sizeof kind);
    add_tensor(&sha256, value, 0);
    sha256_hex(&sha256, text);
}

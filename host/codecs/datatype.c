#include "codecs/datatype.h"
#include "inlay/check.h"
#include "base/utf8.h"
#include <math.h>
#include <string.h>

struct datatype {
    const char *name;
    inlay_dtype dtype;
};

static const struct datatype datatypes[] = {
#define DATATYPE_ROW(name, dtype) { name, INLAY_##dtype },
    DATATYPE_LIST(DATATYPE_ROW)
#undef DATATYPE_ROW
};
enum { DATATYPE_COUNT = sizeof datatypes / sizeof datatypes[0] };

inlay_dtype datatype_find(const char *name, size_t bytes)
{
    for (uint32_t i = 0; i < DATATYPE_COUNT; i++)
        if (strlen(datatypes[i].name) == bytes && memcmp(datatypes[i].name, name, bytes) == 0)
            return datatypes[i].dtype;
    return INLAY_UNDEFINED;
}

const char *datatype_name(inlay_dtype dtype)
{
    for (uint32_t i = 0; i < DATATYPE_COUNT; i++)
        if (datatypes[i].dtype == dtype)
            return datatypes[i].name;
    return NULL;
}

uint32_t datatype_bytes(inlay_dtype dtype)
{
    return inlay_dtype_bits(dtype) / 8;
}

bool datatype_store_signed(int64_t value, inlay_dtype dtype, void *out, uint64_t i)
{
    switch (dtype) {
    case INLAY_INT8:
        ((int8_t *)out)[i] = (int8_t)value;
        return value >= INT8_MIN && value <= INT8_MAX;
    case INLAY_INT16:
        ((int16_t *)out)[i] = (int16_t)value;
        return value >= INT16_MIN && value <= INT16_MAX;
    case INLAY_INT32:
        ((int32_t *)out)[i] = (int32_t)value;
        return value >= INT32_MIN && value <= INT32_MAX;
    default:
        ((int64_t *)out)[i] = value;
        return true;
    }
}

bool datatype_store_unsigned(uint64_t value, inlay_dtype dtype, void *out, uint64_t i)
{
    switch (dtype) {
    case INLAY_UINT8:
        ((uint8_t *)out)[i] = (uint8_t)value;
        return value <= UINT8_MAX;
    case INLAY_UINT16:
        ((uint16_t *)out)[i] = (uint16_t)value;
        return value <= UINT16_MAX;
    case INLAY_UINT32:
        ((uint32_t *)out)[i] = (uint32_t)value;
        return value <= UINT32_MAX;
    default:
        ((uint64_t *)out)[i] = value;
        return true;
    }
}

static bool store_bool(json_reader *reader, void *out, uint64_t i)
{
    char c = reader_peek(reader);
    json_text number;
    bool value;

    if (c == '0' || c == '1') {
        if (!reader_number(reader, &number) || number.bytes != 1)
            return reader_fail(reader, "expected true or false");
        value = c == '1';
    } else if (!reader_bool(reader, &value)) {
        return false;
    }
    ((uint8_t *)out)[i] = value;
    return true;
}

/* Reads one element. */
static bool store(json_reader *reader, inlay_dtype dtype, void *out, uint64_t i)
{
    json_text text;
    uint64_t unsigned_value;
    int64_t signed_value;
    double real;

    if (dtype == INLAY_BOOL)
        return store_bool(reader, out, i);
    if (dtype == INLAY_STRING) {
        if (!reader_string(reader, &text))
            return false;
        ((inlay_str *)out)[i] = (inlay_str){ text.data, text.bytes };
        return true;
    }
    if (!reader_number(reader, &text))
        return false;
    switch (dtype) {
    case INLAY_FLOAT:
    case INLAY_DOUBLE:
        if (!text_to_double(text, &real))
            return reader_fail(reader, "a number of more than 400 characters");
        if (!isfinite(real) || (dtype == INLAY_FLOAT && !isfinite((float)real)))
            return reader_fail(reader, "a number beyond the range of the datatype; send infinity as binary data");
        if (dtype == INLAY_DOUBLE)
            ((double *)out)[i] = real;
        else
            ((float *)out)[i] = (float)real;
        return true;
    case INLAY_UINT8:
    case INLAY_UINT16:
    case INLAY_UINT32:
    case INLAY_UINT64:
        return (text_to_uint64(text, &unsigned_value) && datatype_store_unsigned(unsigned_value, dtype, out, i)) ||
               reader_fail(reader, "not an integer of the datatype");
    default:
        return (text_to_int64(text, &signed_value) && datatype_store_signed(signed_value, dtype, out, i)) ||
               reader_fail(reader, "not an integer of the datatype");
    }
}

/* Reads the elements of an array and of nested arrays. Returns their number. */
static uint64_t store_all(json_reader *reader, inlay_dtype dtype, uint64_t count, void *out)
{
    uint64_t stored = 0;

    if (!reader_open(reader, '['))
        return 0;
    while (reader->depth > 0 && reader->error == NULL) {
        if (!reader_element(reader))
            continue; /* the end of an array, or an error */
        if (reader_peek(reader) == '[') {
            (void)reader_open(reader, '[');
        } else {
            if (stored == count)
                (void)reader_fail(reader, "more elements than its shape has");
            else if (store(reader, dtype, out, stored))
                stored++;
        }
    }
    return stored;
}

inlay_status datatype_read_json(json_text value, inlay_dtype dtype, uint64_t count, void *out, const char *name,
                                inlay_diag *diag)
{
    json_reader reader;
    uint64_t stored;

    if (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': %s cannot be sent as JSON; use binary data", name,
                          datatype_name(dtype));
    reader_begin(&reader, value.data, value.bytes);
    stored = store_all(&reader, dtype, count, out);
    if (!reader_end(&reader))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': element %llu of its data: %s", name,
                          (unsigned long long)stored, reader.error);
    if (stored != count)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has %llu elements, but its shape has %llu", name,
                          (unsigned long long)stored, (unsigned long long)count);
    return INLAY_OK;
}

/* JSON has no NaN and no infinity. This writes what Python's json module reads, as Triton does (kWriteNanAndInfFlag of
 * RapidJSON); null, which KServe's runtimes in Python write, would lose which of the three it was. */
static void write_real(struct strbuf *to, double value, int digits)
{
    const size_t at = to->size;

    if (isfinite(value) && value == (double)(int32_t)value) {
        strbuf_text(to, value == 0 && signbit(value) ? "-" : "");
        strbuf_int(to, (int32_t)value);
        strbuf_add(to, ".0", 2);
    } else if (isfinite(value)) {
        strbuf_format(to, "%.*g", digits, value);
        if (!to->failed && strpbrk(to->data + at, ".e") == NULL) /* readers make an integer of digits alone */
            strbuf_text(to, ".0");
    } else {
        strbuf_text(to, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    }
}

static void write_element(struct strbuf *to, inlay_dtype dtype, const void *data, uint64_t i)
{
    switch (dtype) {
    case INLAY_BOOL:
        strbuf_text(to, ((const uint8_t *)data)[i] != 0 ? "true" : "false");
        break;
    case INLAY_UINT8:
        strbuf_uint(to, ((const uint8_t *)data)[i]);
        break;
    case INLAY_UINT16:
        strbuf_uint(to, ((const uint16_t *)data)[i]);
        break;
    case INLAY_UINT32:
        strbuf_uint(to, ((const uint32_t *)data)[i]);
        break;
    case INLAY_UINT64:
        strbuf_uint(to, ((const uint64_t *)data)[i]);
        break;
    case INLAY_INT8:
        strbuf_int(to, ((const int8_t *)data)[i]);
        break;
    case INLAY_INT16:
        strbuf_int(to, ((const int16_t *)data)[i]);
        break;
    case INLAY_INT32:
        strbuf_int(to, ((const int32_t *)data)[i]);
        break;
    case INLAY_INT64:
        strbuf_int(to, ((const int64_t *)data)[i]);
        break;
    case INLAY_FLOAT:
        write_real(to, ((const float *)data)[i], 9);
        break;
    case INLAY_DOUBLE:
        write_real(to, ((const double *)data)[i], 17);
        break;
    default:
        strbuf_json(to, ((const inlay_str *)data)[i].data, ((const inlay_str *)data)[i].bytes);
        break;
    }
}

inlay_status datatype_write_json(struct strbuf *to, inlay_dtype dtype, uint64_t count, const void *data,
                                 const char *name, inlay_diag *diag)
{
    if (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "output '%s': %s cannot be sent as JSON; request it with \"binary_data\": true", name,
                          datatype_name(dtype));
    for (uint64_t i = 0; i < count && !to->failed; i++) {
        if (dtype == INLAY_STRING) {
            const inlay_str *string = &((const inlay_str *)data)[i];

            if (!utf8_is_valid(string->data, string->bytes))
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                  "output '%s' is not UTF-8; request it with \"binary_data\": true", name);
        }
        if (i > 0)
            strbuf_add(to, ",", 1);
        write_element(to, dtype, data, i);
    }
    return INLAY_OK;
}

inlay_status datatype_split_bytes(const char *data, uint64_t bytes, uint64_t count, inlay_str *out, const char *name,
                                  inlay_diag *diag)
{
    const unsigned char *at = (const unsigned char *)data;
    uint64_t left = bytes;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = left < 4 ? 0 : at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;

        if (left < 4 || length > left - 4)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': element %llu ends beyond the data", name,
                              (unsigned long long)i);
        out[i] = (inlay_str){ (const char *)at + 4, length };
        at += 4 + length;
        left -= 4 + length;
    }
    if (left > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': %llu bytes follow its %llu elements", name,
                          (unsigned long long)left, (unsigned long long)count);
    return INLAY_OK;
}

uint64_t datatype_raw_bytes(inlay_dtype dtype, uint64_t count, const void *data)
{
    uint64_t bytes = 4 * count;

    if (dtype != INLAY_STRING)
        return count * datatype_bytes(dtype);
    for (uint64_t i = 0; i < count; i++)
        bytes += ((const inlay_str *)data)[i].bytes;
    return bytes;
}

void datatype_write_raw(struct strbuf *to, inlay_dtype dtype, uint64_t count, const void *data)
{
    INLAY_CHECK(count == 0 || data != NULL);
    if (dtype != INLAY_STRING) {
        strbuf_add(to, data, count * datatype_bytes(dtype));
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const inlay_str *string = &((const inlay_str *)data)[i];
        const unsigned char length[] = { (unsigned char)string->bytes, (unsigned char)(string->bytes >> 8),
                                         (unsigned char)(string->bytes >> 16), (unsigned char)(string->bytes >> 24) };

        strbuf_add(to, length, sizeof length);
        strbuf_add(to, string->data, string->bytes);
    }
}

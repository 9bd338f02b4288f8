/* gguf_keys.c - the values of keys, by the table of gguf_keys.def. */
#include "formats/gguf.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { INT, EACH, FLOAT, FLAG, TEXT, TEXTS, NUMBERS, LAYERS };
enum { NAME_BYTES = 128 };

#define ALL GGUF_READ_BY_ALL
#define WINDOWS GGUF_READ_BY_WINDOWS
#define CAPS GGUF_READ_BY_CAPS
#define GEMMA2 GGUF_READ_BY_GEMMA2
#define SCALES GGUF_READ_BY_SCALES
#define GRANITE GGUF_READ_BY_GRANITE
#define GRANITE_DENSE GGUF_READ_BY_GRANITE_DENSE
#define QWEN_MOE GGUF_READ_BY_QWEN_MOE
#define SHARED GGUF_READ_BY_SHARED
#define ENCODERS GGUF_READ_BY_ENCODERS
#define DELTA GGUF_READ_BY_DELTA
#define YARN GGUF_READ_BY_YARN
#define VISION GGUF_READ_BY_VISION
#define LATENT GGUF_READ_BY_LATENT
#define DENSE GGUF_READ_BY_DENSE
#define GAPS GGUF_READ_BY_GAPS
#define ROUTED GGUF_READ_BY_ROUTED
#define STATES GGUF_READ_BY_STATES
#define SHORT GGUF_READ_BY_SHORT
#define STEPS GGUF_READ_BY_STEPS
#define PLACES GGUF_READ_BY_PLACES
#define STACK GGUF_READ_BY_STACK
#define MEANS (GGUF_READ_BY_ENCODERS | GGUF_READ_BY_COHERE) /* norms without the mean */
#define LOGITS (GGUF_READ_BY_SCALES | GGUF_READ_BY_COHERE)
#define REQUIRED INFINITY
#define COMPUTED NAN

static const struct {
    uint8_t kind;
    uint32_t readers;
    float otherwise;
} keys[] = {
#define GGUF_KEY(id, name, kind, readers, otherwise) { kind, readers, otherwise },
#define GGUF_IGNORED(name)
#include "formats/gguf_keys.def"
#undef GGUF_KEY
#undef GGUF_IGNORED
};

/* The names of all keys and of those that are ignored, each with its NUL. */
static const char key_names[] =
#define GGUF_KEY(id, name, kind, readers, otherwise) name "\0"
#define GGUF_IGNORED(name)
#include "formats/gguf_keys.def"
#undef GGUF_KEY
#undef GGUF_IGNORED
    ;
static const char ignored_names[] =
#define GGUF_KEY(id, name, kind, readers, otherwise)
#define GGUF_IGNORED(name) name "\0"
#include "formats/gguf_keys.def"
#undef GGUF_KEY
#undef GGUF_IGNORED
    ;

/* The full name of a key. */
static void name_key(const struct gguf *gguf, enum gguf_key key, char out[NAME_BYTES])
{
    const char *name = key_names;

    for (int i = 0; i < (int)key; i++)
        name += strlen(name) + 1;
    (void)snprintf(out, NAME_BYTES, "%.*s%s%s",
                   name[0] == '.' ? (int)(gguf->architecture.bytes < 60 ? gguf->architecture.bytes : 60) : 0,
                   gguf->architecture.data != NULL ? gguf->architecture.data : "",
                   name[0] == ':' ? "tokenizer.ggml." : "", name + (name[0] == ':'));
}

void gguf_refuse(struct gguf *gguf, inlay_status status, const char *text, const char *which)
{
    if (gguf->status == INLAY_OK)
        gguf->status = inlay_fail(gguf->diag, status, "the GGUF file %s '%.100s'", text, which);
}

void gguf_fail_key(struct gguf *gguf, enum gguf_key key, const char *what)
{
    char name[NAME_BYTES];

    name_key(gguf, key, name);
    gguf_refuse(gguf, INLAY_INVALID_MODEL, what, name);
}

/* The first item that is not 0; 0: there is none. */
static double first_item(const struct gguf_value *value)
{
    double item = 0;

    for (uint64_t i = 0; i < value->count && item == 0; i++)
        item = gguf_item(value, i);
    return item;
}

/* Why the value has not the kind; NULL: it has. gaps: items of 0 are of layers without. */
static const char *type_error(const struct gguf_value *value, int kind, bool gaps)
{
    enum { TRUTH = 1, WHOLE = 2, REAL = 4, LETTERS = 8 };
    static const uint8_t classes[GGUF_TYPES] = { WHOLE, WHOLE,   WHOLE, WHOLE, WHOLE, WHOLE, REAL,
                                                 TRUTH, LETTERS, 0,     WHOLE, WHOLE, REAL };
    static const struct {
        uint8_t single, items; /* the classes of a value and of the items of an array */
        const char *text;
    } kinds[] = { { WHOLE, 0, "needs a whole number for the key" },
                  { WHOLE, WHOLE, "needs a whole number, or one for each layer, for the key" },
                  { WHOLE | REAL, 0, "needs a number for the key" },
                  { TRUTH, 0, "needs true or false for the key" },
                  { LETTERS, 0, "needs a text for the key" },
                  { 0, LETTERS, "needs an array of texts for the key" },
                  { 0, WHOLE | REAL, "needs an array of numbers for the key" },
                  { WHOLE, WHOLE | TRUTH, "needs a whole number, or an array for the layers, for the key" } };
    const bool is_array = value->type == GGUF_ARRAY;

    if ((classes[value->item_type] & (is_array ? kinds[kind].items : kinds[kind].single)) == 0)
        return kinds[kind].text;
    if (value->count == 0 && (kind == EACH || kind == LAYERS))
        return "has an empty array for the key";
    for (uint64_t i = 0; kind == EACH && i < value->count; i++)
        if (gguf_item(value, i) != first_item(value) && !(gaps && gguf_item(value, i) == 0))
            return "has layers of different sizes, which are not supported, by the key";
    return NULL;
}

struct gguf_value *gguf_find(struct gguf *gguf, enum gguf_key key)
{
    struct gguf_value *found = NULL;
    char name[NAME_BYTES];
    const char *why;
    bool gaps;

    if (keys[key].readers != ALL && (keys[key].readers & gguf->readers) == 0)
        return NULL;
    name_key(gguf, key, name);
    for (uint64_t i = 0; i < gguf->value_count; i++) {
        if (!gguf_text_is(gguf->values[i].key, name))
            continue;
        if (found != NULL)
            gguf_refuse(gguf, INLAY_INVALID_MODEL, "has twice the key", name);
        found = &gguf->values[i];
        found->used = true;
    }
    gaps = key == GGUF_KEY_HEADS && (gguf->readers & GGUF_READ_BY_GAPS) != 0;
    why = found != NULL ? type_error(found, keys[key].kind, gaps) : NULL;
    if (why != NULL)
        gguf_refuse(gguf, INLAY_INVALID_MODEL, why, name);
    return why == NULL ? found : NULL;
}

size_t gguf_number_bytes(uint32_t type)
{
    static const uint8_t bytes[GGUF_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

    return type < GGUF_TYPES ? bytes[type] : 0;
}

double gguf_item(const struct gguf_value *array, uint64_t i)
{
    const size_t size = gguf_number_bytes(array->item_type);
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } number = { .u64 = 0 };

    INLAY_CHECK(size > 0 && i < array->count);
    memcpy(&number, array->data + i * size, size);
    switch (array->item_type) {
    case GGUF_UINT8:
    case GGUF_BOOL:
        return number.u8;
    case GGUF_INT8:
        return number.i8;
    case GGUF_UINT16:
        return number.u16;
    case GGUF_INT16:
        return number.i16;
    case GGUF_UINT32:
        return number.u32;
    case GGUF_INT32:
        return number.i32;
    case GGUF_UINT64:
        return (double)number.u64;
    case GGUF_INT64:
        return (double)number.i64;
    case GGUF_FLOAT32:
        return (double)number.f32;
    default:
        INLAY_CHECK(array->item_type == GGUF_FLOAT64);
        return number.f64;
    }
}

double gguf_float_or(struct gguf *gguf, enum gguf_key key, double otherwise)
{
    const struct gguf_value *value = gguf_find(gguf, key);

    if (value != NULL)
        return first_item(value);
    if (isinf(otherwise))
        gguf_fail_key(gguf, key, "lacks the key");
    return otherwise;
}

double gguf_float(struct gguf *gguf, enum gguf_key key)
{
    INLAY_CHECK(!isnan(keys[key].otherwise));
    return gguf_float_or(gguf, key, (double)keys[key].otherwise);
}

static int64_t whole(struct gguf *gguf, enum gguf_key key, double value)
{
    if (value >= -9e15 && value <= 9e15)
        return (int64_t)value;
    gguf_fail_key(gguf, key, "has a value that is out of range for the key");
    return 0;
}

int64_t gguf_int_or(struct gguf *gguf, enum gguf_key key, int64_t otherwise)
{
    return whole(gguf, key, gguf_float_or(gguf, key, (double)otherwise));
}

int64_t gguf_int(struct gguf *gguf, enum gguf_key key)
{
    return whole(gguf, key, gguf_float(gguf, key));
}

struct gguf_text gguf_next_text(const uint8_t **at)
{
    struct gguf_text text;
    uint64_t bytes;

    memcpy(&bytes, *at, sizeof bytes);
    text = (struct gguf_text){ (const char *)*at + sizeof bytes, (size_t)bytes };
    *at += sizeof bytes + bytes;
    return text;
}

struct gguf_text gguf_string(struct gguf *gguf, enum gguf_key key)
{
    const struct gguf_value *value = gguf_find(gguf, key);
    const uint8_t *at;

    if (value == NULL)
        return (struct gguf_text){ NULL, 0 };
    at = value->data;
    return gguf_next_text(&at);
}

bool gguf_text_is(struct gguf_text text, const char *what)
{
    return text.data != NULL && text.bytes == strlen(what) && memcmp(text.data, what, text.bytes) == 0;
}

/* Whether llama.cpp ignores the key of the architecture, whose name begins with a dot. */
static bool is_ignored(const char *key, size_t bytes)
{
    for (const char *name = key_names; name[0] != '\0'; name += strlen(name) + 1)
        if (strlen(name) == bytes && memcmp(name, key, bytes) == 0)
            return true; /* one that other architectures read */
    for (const char *name = ignored_names; name[0] != '\0'; name += strlen(name) + 1) {
        const size_t n = strlen(name);

        if (name[n - 1] == '*' ? bytes > n && memcmp(name, key + 1, n - 1) == 0
                               : bytes == n + 1 && memcmp(name, key + 1, n) == 0)
            return true;
    }
    return false;
}

void gguf_check_keys(struct gguf *gguf, struct strbuf *ignored)
{
    static const char usual[] = "general.sampling."; /* other parameters of requests than those of the table */
    const size_t prefix = gguf->architecture.bytes;

    for (int key = 0; key < GGUF_KEYS; key++) /* also those that nothing depends on in this file need their types */
        (void)gguf_find(gguf, (enum gguf_key)key);
    for (uint64_t i = 0; i < gguf->value_count; i++) {
        const struct gguf_value *value = &gguf->values[i];
        char key[NAME_BYTES];

        const bool is_usual = value->key.bytes > sizeof usual && memcmp(value->key.data, usual, sizeof usual - 1) == 0;

        if (value->used || (!is_usual && (value->key.bytes <= prefix || value->key.data[prefix] != '.' ||
                                          memcmp(value->key.data, gguf->architecture.data, prefix) != 0)))
            continue;
        (void)snprintf(key, sizeof key, "%.*s", (int)(value->key.bytes < 100 ? value->key.bytes : 100),
                       value->key.data);
        if (is_usual || is_ignored(value->key.data + prefix, value->key.bytes - prefix))
            strbuf_format(ignored, "%s%s", ignored->size > 0 ? " " : "", key);
        else
            gguf_refuse(gguf, INLAY_UNSUPPORTED, "has a key that is not understood:", key);
    }
}

/* LabelEncoder (ai.onnx.ml 1, 2, 4), CategoryMapper (1), OneHotEncoder (1): hash tables from keys to values. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/ml.h"

enum { ENCODE_GRAIN = 1 << 11 };

/* A slot of the hash table of keys: an integer, the bits of a double, or the hash of a string. */
typedef struct encode_slot {
    uint64_t word;
    int32_t place; /* index in the list of keys; NOWHERE: a free slot */
} encode_slot;
enum {
    NOWHERE = -1,
    SPAN_MIN = 1024,
    SPAN_PER_KEY = 4 /* integer keys in a range up to SPAN_MIN + SPAN_PER_KEY * count use a direct table */
};

typedef struct encode_state {
    ml_pool pool;
    encode_slot *slots; /* [mask + 1], a power of two, at most half occupied; NULL if `direct` is used */
    uint64_t mask;
    inlay_str *texts; /* string keys as listed, or NULL */
    int32_t *direct;  /* [span]: the index of integer key least + i; NULL if the keys are too far apart */
    int64_t least;
    uint64_t span;
    int64_t listed;      /* number of keys: the index of the default value, the columns of OneHotEncoder */
    inlay_dtype from;    /* STRING, INT64 or DOUBLE: how keys are compared */
    inlay_dtype to;      /* element type of values */
    void *values;        /* [listed + 1], the last one is the default */
    bool one_hot, zeros; /* OneHotEncoder */
} encode_state;

static void release_encode(void *state)
{
    encode_state *encode = state;

    if (encode != NULL)
        ml_pool_deinit(&encode->pool);
    free(encode);
}

/* A list attribute of any kind: `count` elements of dtype at data. */
typedef struct encode_list {
    const void *data;
    inlay_dtype dtype;
    int64_t count;
} encode_list;

static encode_list encode_find(ml_pool *pool, const kit_node *node, const char *const names[4])
{
    static const inlay_dtype types[] = { INLAY_STRING, INLAY_INT64, INLAY_FLOAT };

    for (uint32_t i = 0; i < 4; i++) {
        const inlay_attr_info *attribute = names[i] != NULL ? kit_attr(node->info, names[i]) : NULL;
        encode_list list = { NULL, INLAY_UNDEFINED, 1 };
        if (attribute == NULL)
            continue;
        if (i == 3 && attribute->kind == INLAY_ATTR_TENSOR && attribute->tensor != NULL) {
            for (uint32_t d = 0; d < attribute->tensor->rank; d++)
                list.count *= attribute->tensor->dims[d];
            list.data = ml_alloc(pool, attribute->tensor->bytes, 1); /* aligned: data in the file may be unaligned */
            if (list.data != NULL && attribute->tensor->bytes > 0)
                memcpy((void *)(uintptr_t)list.data, attribute->tensor->data, (size_t)attribute->tensor->bytes);
            list.dtype = attribute->tensor->dtype;
            return list;
        }
        if (i < 3 && attribute->count > 0) {
            list.data = i == 0   ? (const void *)attribute->strings
                        : i == 1 ? (const void *)attribute->ints
                                 : (const void *)attribute->floats;
            list.dtype = types[i];
            list.count = attribute->count;
            return list;
        }
    }
    return (encode_list){ NULL, INLAY_UNDEFINED, 0 };
}

static inlay_dtype encode_kind(inlay_dtype dtype)
{
    bool real = dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE;
    return dtype == INLAY_STRING ? INLAY_STRING : real ? INLAY_DOUBLE : INLAY_INT64;
}

/* Returns the key of a number: all NaN have the same key, and -0 that of 0. */
static inline uint64_t word_of_real(double value)
{
    uint64_t word;

    value = isnan(value) ? (double)NAN : value + 0.0;
    memcpy(&word, &value, sizeof word);
    return word;
}
static inline uint64_t word_of_text(inlay_str text)
{
    uint64_t word = UINT64_C(0xcbf29ce484222325);

    for (uint64_t i = 0; i < text.bytes; i++)
        word = (word ^ (uint8_t)text.data[i]) * UINT64_C(0x100000001b3);
    return word;
}

/* Returns the slot of a key, or the free slot where the key would be inserted. text: the key if keys are strings, else
 * NULL. */
static inline encode_slot *find_slot(const encode_state *state, uint64_t word, const inlay_str *text)
{
    const uint64_t mixed = word * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t position = mixed >> 32;

    INLAY_CHECK(state->slots != NULL && (state->mask & (state->mask + 1)) == 0);
    for (;; position++) {
        encode_slot *slot = &state->slots[position & state->mask];
        const inlay_str *key;

        if (slot->place == NOWHERE)
            return slot;
        if (slot->word != word)
            continue;
        if (text == NULL)
            return slot;
        key = &state->texts[slot->place];
        if (key->bytes == text->bytes && (text->bytes == 0 || memcmp(key->data, text->data, (size_t)text->bytes) == 0))
            return slot;
    }
}

/* Builds a direct table, which has an entry for each integer between the smallest and the largest key. Returns false if
 * this is not possible. */
static bool index_directly(encode_state *state, encode_list keys)
{
    int64_t least = INT64_MAX, largest = INT64_MIN;

    INLAY_CHECK(keys.count > 0);
    for (int64_t i = 0; i < keys.count; i++) {
        const int64_t key = convert_get_i64(keys.dtype, keys.data, i);

        least = key < least ? key : least;
        largest = key > largest ? key : largest;
    }
    state->least = least;
    state->span = (uint64_t)largest - (uint64_t)least + 1;
    if (state->span == 0 || state->span > SPAN_MIN + SPAN_PER_KEY * (uint64_t)keys.count)
        return false;
    state->direct = ml_alloc(&state->pool, state->span, sizeof *state->direct);
    for (uint64_t i = 0; state->direct != NULL && i < state->span; i++)
        state->direct[i] = (int32_t)keys.count;
    for (int64_t i = 0; state->direct != NULL && i < keys.count; i++)
        state->direct[(uint64_t)convert_get_i64(keys.dtype, keys.data, i) - (uint64_t)least] = (int32_t)i;
    return true;
}

/* Inserts the keys. Of equal keys the last one counts, as in a dictionary filled in order. */
static void encode_keys(encode_state *state, encode_list keys)
{
    uint64_t slots = 16;

    state->from = encode_kind(keys.dtype);
    state->listed = keys.count;
    if (state->from == INLAY_INT64 && index_directly(state, keys))
        return;
    while (slots < 2 * (uint64_t)keys.count)
        slots *= 2;
    if (state->from == INLAY_STRING)
        state->texts = ml_strings(&state->pool, keys.data, (uint64_t)keys.count);
    state->slots = ml_alloc(&state->pool, slots, sizeof *state->slots);
    state->mask = slots - 1;
    if (state->pool.failed)
        return;
    for (uint64_t i = 0; i < slots; i++)
        state->slots[i].place = NOWHERE;
    for (int64_t i = 0; i < keys.count; i++) {
        const inlay_str *text = state->texts != NULL ? &state->texts[i] : NULL;
        const uint64_t word = text != NULL                  ? word_of_text(*text)
                              : state->from == INLAY_DOUBLE ? word_of_real(convert_get_f64(keys.dtype, keys.data, i))
                                                            : (uint64_t)convert_get_i64(keys.dtype, keys.data, i);

        *find_slot(state, word, text) = (encode_slot){ word, (int32_t)i };
    }
}

/* Stores the value for unknown keys at index `at`, after the values of the keys. */
static void encode_default(const kit_node *node, encode_state *state, int64_t at, void *values)
{
    const inlay_attr_info *attribute = kit_attr(node->info, "default_tensor");
    double real = kit_attr_float(node->info, "default_float", -0.0);
    int64_t integer = kit_attr_int(node->info, "default_int64", -1);

    if (attribute != NULL && attribute->kind == INLAY_ATTR_TENSOR && attribute->tensor != NULL &&
        attribute->tensor->dtype == state->to && attribute->tensor->bytes >= inlay_dtype_bits(state->to) / 8) {
        memcpy((char *)values + (size_t)at * inlay_dtype_bits(state->to) / 8, attribute->tensor->data,
               inlay_dtype_bits(state->to) / 8);
    } else if (state->to == INLAY_STRING) {
        const char *text = kit_attr_string(node->info, "default_string", "_Unused");
        ((inlay_str *)values)[at] = (inlay_str){ text, strlen(text) };
    } else if (state->to == INLAY_FLOAT || state->to == INLAY_DOUBLE) {
        convert_from_f64(state->to, values, at, 1, &real, 0);
    } else {
        convert_from_i64(state->to, values, at, 1, &integer, 0);
    }
}

/* Copies the values from the list; if its data is NULL, the values are the positions of the keys. The default comes
 * last. */
static void encode_values(const kit_node *node, encode_state *state, encode_list values)
{
    size_t element_bytes = inlay_dtype_bits(state->to) / 8;
    char *elements = ml_alloc(&state->pool, (uint64_t)values.count + 1, element_bytes);

    if (elements == NULL)
        return;
    for (int64_t i = 0; i < values.count; i++) {
        if (values.data == NULL)
            convert_from_i64(state->to, elements, i, 1, &i, 0);
        else
            memcpy(elements + (size_t)i * element_bytes, (const char *)values.data + (size_t)i * element_bytes,
                   element_bytes);
    }
    encode_default(node, state, values.count, elements);
    state->values = state->to == INLAY_STRING ? ml_strings(&state->pool, (const inlay_str *)(const void *)elements,
                                                           (uint64_t)values.count + 1)
                                              : (void *)elements;
}

/* Finds the lists of keys and values of the node's operator. */
static void encode_lists(ml_pool *pool, const kit_node *node, encode_list *keys, encode_list *values)
{
    static const char *const key_names[] = { "keys_strings", "keys_int64s", "keys_floats", "keys_tensor" };
    static const char *const value_names[] = { "values_strings", "values_int64s", "values_floats", "values_tensor" };
    static const char *const cats_text[] = { "cats_strings", NULL, NULL, NULL };
    static const char *const cats_number[] = { NULL, "cats_int64s", NULL, NULL };
    static const char *const cats[] = { "cats_strings", "cats_int64s", NULL, NULL };
    static const char *const classes[] = { "classes_strings", NULL, NULL, NULL };
    bool from_text = kit_input_dtype(node, 0) == INLAY_STRING;
    encode_list positions = { NULL, INLAY_INT64, 0 };

    if (strcmp(kit_op_type(node), "CategoryMapper") == 0) {
        *keys = encode_find(pool, node, from_text ? cats_text : cats_number);
        *values = encode_find(pool, node, from_text ? cats_number : cats_text);
    } else if (strcmp(kit_op_type(node), "OneHotEncoder") == 0) {
        *keys = encode_find(pool, node, cats);
        *values = positions;
        values->count = keys->count;
    } else if (kit_since_version(node) < 2) { /* LabelEncoder-1: strings and their positions */
        *keys = encode_find(pool, node, classes);
        *values = positions;
        values->count = keys->count;
        if (!from_text) {
            *values = *keys;
            *keys = positions;
            keys->count = values->count;
        }
    } else {
        *keys = encode_find(pool, node, key_names);
        *values = encode_find(pool, node, value_names);
    }
}

static inlay_status prepare_encode(const kit_node *node, void **out_state, inlay_diag *diag)
{
    encode_state *state = calloc(1, sizeof *state);
    encode_list keys, values;
    inlay_status status = INLAY_OK;
    int64_t *positions = NULL;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a table of labels");
    state->one_hot = strcmp(kit_op_type(node), "OneHotEncoder") == 0;
    state->zeros = kit_attr_int(node->info, "zeros", 1) != 0;
    encode_lists(&state->pool, node, &keys, &values);
    state->to = state->one_hot ? INLAY_INT64 : kit_output_dtype(node, 0);
    if (keys.count == 0 || keys.count != values.count || keys.count > INT32_MAX ||
        (!state->one_hot && values.dtype != state->to)) {
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL,
                       "%lld keys and %lld values of type %s do not make a table to %s; both lists must exist and have "
                       "the same length",
                       (long long)keys.count, (long long)values.count, inlay_dtype_name(values.dtype),
                       inlay_dtype_name(state->to));
    } else {
        if (keys.data == NULL) { /* LabelEncoder-1: the keys are positions */
            positions = malloc((size_t)keys.count * sizeof *positions);
            for (int64_t i = 0; positions != NULL && i < keys.count; i++)
                positions[i] = i;
            keys.data = positions;
        }
        if (keys.data != NULL) {
            encode_keys(state, keys);
            encode_values(node, state, values);
        }
        if (keys.data == NULL || state->pool.failed)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a table of labels");
    }
    free(positions);
    if (status == INLAY_OK && (encode_kind(kit_input_dtype(node, 0)) == INLAY_STRING) != (state->from == INLAY_STRING))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "X and the keys must both be strings, or neither");
    if (status == INLAY_OK)
        *out_state = state;
    else
        release_encode(state);
    return status;
}

enum { ENCODE_BLOCK = 256 };

static inline int32_t place_of(const encode_state *state, uint64_t word, const inlay_str *text)
{
    const encode_slot *slot = find_slot(state, word, text);

    return slot->place != NOWHERE ? slot->place : (int32_t)state->listed;
}

/* Looks up `count` elements of input starting at `first`. places receives their indices in the list of keys; for an
 * unknown element, the number of keys. */
static void find_places(const encode_state *state, const kit_tensor *input, int64_t first, int64_t count,
                        int32_t *places)
{
    const inlay_str *texts = input->data;
    int64_t integers[ENCODE_BLOCK];
    double reals[ENCODE_BLOCK];

    INLAY_CHECK(count <= ENCODE_BLOCK);
    if (state->from == INLAY_STRING) {
        for (int64_t i = 0; i < count; i++)
            places[i] = place_of(state, word_of_text(texts[first + i]), &texts[first + i]);
        return;
    }
    if (state->from == INLAY_DOUBLE || encode_kind(input->dtype) == INLAY_DOUBLE)
        convert_to_f64(reals, input->dtype, input->data, first, count);
    if (state->from == INLAY_DOUBLE) {
        for (int64_t i = 0; i < count; i++)
            places[i] = place_of(state, word_of_real(reals[i]), NULL);
        return;
    }
    if (encode_kind(input->dtype) == INLAY_DOUBLE) {
        for (int64_t i = 0; i < count; i++)
            integers[i] = f64_to_i64(reals[i]);
    } else {
        convert_to_i64(integers, input->dtype, input->data, first, count);
    }
    if (state->direct != NULL) {
        for (int64_t i = 0; i < count; i++) {
            const uint64_t offset = (uint64_t)integers[i] - (uint64_t)state->least;
            places[i] = offset < state->span ? state->direct[offset] : (int32_t)state->listed;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        places[i] = place_of(state, (uint64_t)integers[i], NULL);
}

/* OneHotEncoder: writes rows of zeros with a single one. */
static inlay_status put_rows(const kit_call *call, const int32_t *places, int64_t first, int64_t count)
{
    const encode_state *state = call->state;
    float *rows = (float *)call->out[0].data + first * state->listed;

    memset(rows, 0, (size_t)(count * state->listed) * sizeof *rows);
    for (int64_t i = 0; i < count; i++) {
        if (places[i] < state->listed)
            rows[i * state->listed + places[i]] = 1;
        else if (!state->zeros)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "element %lld of X is in no category; zeros = 0 does not allow that",
                              (long long)(first + i));
    }
    return INLAY_OK;
}

static inlay_status put_values(const kit_call *call, const int32_t *places, int64_t first, int64_t count)
{
    const encode_state *state = call->state;
    const size_t element_bytes = inlay_dtype_bits(state->to) / 8;
    char *to = (char *)call->out[0].data + (size_t)first * element_bytes;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(state->values != NULL);
    if (state->to == INLAY_STRING) {
        for (int64_t i = 0; i < count && status == INLAY_OK; i++)
            status = ml_put_string(call, ((const inlay_str *)state->values)[places[i]], (inlay_str *)(void *)to + i);
    } else if (element_bytes == 4) {
        for (int64_t i = 0; i < count; i++)
            ((uint32_t *)(void *)to)[i] = ((const uint32_t *)state->values)[places[i]];
    } else if (element_bytes == 8) {
        for (int64_t i = 0; i < count; i++)
            ((uint64_t *)(void *)to)[i] = ((const uint64_t *)state->values)[places[i]];
    } else {
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (size_t)i * element_bytes, (const char *)state->values + (size_t)places[i] * element_bytes,
                   element_bytes);
    }
    return status;
}

static inlay_status encode_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const encode_state *state = call->state;
    int32_t places[ENCODE_BLOCK];
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t i = begin; i < end && status == INLAY_OK; i += ENCODE_BLOCK) {
        const int64_t count = end - i < ENCODE_BLOCK ? end - i : ENCODE_BLOCK;

        find_places(state, &call->in[0], i, count, places);
        status = (state->one_hot ? put_rows : put_values)(call, places, i, count);
    }
    return status;
}

static inlay_status run_encode(const kit_call *call)
{
    const encode_state *state = call->state;
    int64_t count = call->in[0].count;
    kit_call job = *call;

    if (call->out[0].count != (state->one_hot ? count * state->listed : count))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements for %lld of X",
                          (long long)call->out[0].count, (long long)count);
    return kit_parallel(call, count, state->to == INLAY_STRING ? count + 1 : ENCODE_GRAIN, encode_range, &job);
}

#define ENCODE_KERNEL(name)                                                                                            \
    {                                                                                                                  \
        .domain = "ai.onnx.ml", .op_type = name, .prepare = prepare_encode, .release = release_encode,                 \
        .run = run_encode                                                                                              \
    }

static const kit_kernel kernels[] = {
    ENCODE_KERNEL("LabelEncoder"),
    ENCODE_KERNEL("CategoryMapper"),
    ENCODE_KERNEL("OneHotEncoder"),
};
const kit_table reference_ml_encode = { kernels, KIT_COUNT(kernels) };

/* LabelEncoder (ai.onnx.ml 1, 2, 4), CategoryMapper (1), OneHotEncoder (1): tables from keys to values. */
#include "instance.h"
#include "ml.h"

enum { ENCODE_GRAIN = 1 << 11 };

/* An entry of the table of keys: an integer, the bits of a double, or the hash of a text. */
typedef struct encode_slot {
    uint64_t word;
    int32_t place; /* in the list of keys; NOWHERE: a free entry */
} encode_slot;
enum {
    NOWHERE = -1,
    SPAN_MIN = 1024,
    SPAN_PER_KEY = 4 /* integers that lie so close have a table without searching */
};

typedef struct encode_state {
    ml_pool pool;
    encode_slot *slots; /* [mask + 1], a power of two, at most half of them taken; NULL where there is `direct` */
    uint64_t mask;
    inlay_str *texts; /* the keys as listed, or NULL */
    int32_t *direct;  /* [span]: the place of integer least + i; NULL where they are far apart */
    int64_t least;
    uint64_t span;
    int64_t listed;      /* keys: the place of the default, the columns of OneHotEncoder */
    inlay_dtype from;    /* STRING, INT64 or DOUBLE: how keys are compared */
    inlay_dtype to;      /* element type of values */
    void *values;        /* [listed + 1], the last is the default */
    bool one_hot, zeros; /* OneHotEncoder */
} encode_state;

static void release_encode(void *state)
{
    encode_state *s = state;

    if (s != NULL)
        ml_pool_deinit(&s->pool);
    free(s);
}

/* A list among the attributes, of any kind: count elements of dtype at data. */
typedef struct encode_list {
    const void *data;
    inlay_dtype dtype;
    int64_t count;
} encode_list;

static encode_list encode_find(ml_pool *pool, const kit_node *node, const char *const names[4])
{
    static const inlay_dtype types[] = { INLAY_STRING, INLAY_INT64, INLAY_FLOAT };

    for (uint32_t i = 0; i < 4; i++) {
        const inlay_attr_info *a = names[i] != NULL ? kit_attr(node->info, names[i]) : NULL;
        encode_list list = { NULL, INLAY_UNDEFINED, 1 };
        if (a == NULL)
            continue;
        if (i == 3 && a->kind == INLAY_ATTR_TENSOR && a->tensor != NULL) {
            for (uint32_t d = 0; d < a->tensor->rank; d++)
                list.count *= a->tensor->dims[d];
            list.data = ml_alloc(pool, a->tensor->bytes, 1); /* the file's may lie at any address */
            if (list.data != NULL && a->tensor->bytes > 0)
                memcpy((void *)(uintptr_t)list.data, a->tensor->data, (size_t)a->tensor->bytes);
            list.dtype = a->tensor->dtype;
            return list;
        }
        if (i < 3 && a->count > 0) {
            list.data = i == 0 ? (const void *)a->strings : i == 1 ? (const void *)a->ints : (const void *)a->floats;
            list.dtype = types[i];
            list.count = a->count;
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

/* ------------------------------------------------------------------ the table of keys */

/* NaN equals NaN, and -0 equals 0. */
static inline uint64_t word_of_real(double x)
{
    uint64_t word;

    x = isnan(x) ? (double)NAN : x + 0.0;
    memcpy(&word, &x, sizeof word);
    return word;
}
static inline uint64_t word_of_text(inlay_str text)
{
    uint64_t word = UINT64_C(0xcbf29ce484222325);

    for (uint64_t i = 0; i < text.bytes; i++)
        word = (word ^ (uint8_t)text.data[i]) * UINT64_C(0x100000001b3);
    return word;
}

/* The entry of a key, or the free one where it would stand. text: where keys are texts. */
static inline encode_slot *find_slot(const encode_state *s, uint64_t word, const inlay_str *text)
{
    const uint64_t mixed = word * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t at = mixed >> 32;

    for (;; at++) {
        encode_slot *slot = &s->slots[at & s->mask];
        const inlay_str *own;

        if (slot->place == NOWHERE)
            return slot;
        if (slot->word != word)
            continue;
        if (text == NULL)
            return slot;
        own = &s->texts[slot->place];
        if (own->bytes == text->bytes && (text->bytes == 0 || memcmp(own->data, text->data, (size_t)text->bytes) == 0))
            return slot;
    }
}

/* Integers that lie close together: a place for each number between the least and the largest. */
static bool index_directly(encode_state *s, encode_list keys)
{
    int64_t least = INT64_MAX, most = INT64_MIN;

    for (int64_t i = 0; i < keys.count; i++) {
        const int64_t v = convert_get_i64(keys.dtype, keys.data, i);

        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    s->least = least;
    s->span = (uint64_t)most - (uint64_t)least + 1;
    if (s->span == 0 || s->span > SPAN_MIN + SPAN_PER_KEY * (uint64_t)keys.count)
        return false;
    s->direct = ml_alloc(&s->pool, s->span, sizeof *s->direct);
    for (uint64_t i = 0; s->direct != NULL && i < s->span; i++)
        s->direct[i] = (int32_t)keys.count;
    for (int64_t i = 0; s->direct != NULL && i < keys.count; i++)
        s->direct[(uint64_t)convert_get_i64(keys.dtype, keys.data, i) - (uint64_t)least] = (int32_t)i;
    return true;
}

/* Of equal keys the last counts, as in a dictionary that is filled in order. */
static void encode_keys(encode_state *s, encode_list keys)
{
    uint64_t slots = 16;

    s->from = encode_kind(keys.dtype);
    s->listed = keys.count;
    if (s->from == INLAY_INT64 && index_directly(s, keys))
        return;
    while (slots < 2 * (uint64_t)keys.count)
        slots *= 2;
    if (s->from == INLAY_STRING)
        s->texts = ml_strings(&s->pool, keys.data, (uint64_t)keys.count);
    s->slots = ml_alloc(&s->pool, slots, sizeof *s->slots);
    s->mask = slots - 1;
    if (s->pool.failed)
        return;
    for (uint64_t i = 0; i < slots; i++)
        s->slots[i].place = NOWHERE;
    for (int64_t i = 0; i < keys.count; i++) {
        const inlay_str *text = s->texts != NULL ? &s->texts[i] : NULL;
        const uint64_t word = text != NULL              ? word_of_text(*text)
                              : s->from == INLAY_DOUBLE ? word_of_real(convert_get_f64(keys.dtype, keys.data, i))
                                                        : (uint64_t)convert_get_i64(keys.dtype, keys.data, i);

        *find_slot(s, word, text) = (encode_slot){ word, (int32_t)i };
    }
}

/* The value that a key that is not in the table gets, stored behind the others. */
static void encode_default(const kit_node *node, encode_state *s, int64_t at, void *values)
{
    const inlay_attr_info *t = kit_attr(node->info, "default_tensor");
    double real = kit_attr_float(node->info, "default_float", -0.0);
    int64_t integer = kit_attr_int(node->info, "default_int64", -1);

    if (t != NULL && t->kind == INLAY_ATTR_TENSOR && t->tensor != NULL && t->tensor->dtype == s->to &&
        t->tensor->bytes >= inlay_dtype_bits(s->to) / 8) {
        memcpy((char *)values + (size_t)at * inlay_dtype_bits(s->to) / 8, t->tensor->data, inlay_dtype_bits(s->to) / 8);
    } else if (s->to == INLAY_STRING) {
        const char *text = kit_attr_string(node->info, "default_string", "_Unused");
        ((inlay_str *)values)[at] = (inlay_str){ text, strlen(text) };
    } else if (s->to == INLAY_FLOAT || s->to == INLAY_DOUBLE) {
        convert_from_f64(s->to, values, at, 1, &real, 0);
    } else {
        convert_from_i64(s->to, values, at, 1, &integer, 0);
    }
}

/* Fills values from the list; NULL data: positions. The default comes last. */
static void encode_values(const kit_node *node, encode_state *s, encode_list values)
{
    size_t elem = inlay_dtype_bits(s->to) / 8;
    char *all = ml_alloc(&s->pool, (uint64_t)values.count + 1, elem);

    if (all == NULL)
        return;
    for (int64_t i = 0; i < values.count; i++) {
        if (values.data == NULL)
            convert_from_i64(s->to, all, i, 1, &i, 0);
        else
            memcpy(all + (size_t)i * elem, (const char *)values.data + (size_t)i * elem, elem);
    }
    encode_default(node, s, values.count, all);
    s->values = s->to == INLAY_STRING
                    ? ml_strings(&s->pool, (const inlay_str *)(const void *)all, (uint64_t)values.count + 1)
                    : (void *)all;
}

/* The two lists of the node's operator. */
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

    if (strcmp(node->info->op_type.data, "CategoryMapper") == 0) {
        *keys = encode_find(pool, node, from_text ? cats_text : cats_number);
        *values = encode_find(pool, node, from_text ? cats_number : cats_text);
    } else if (strcmp(node->info->op_type.data, "OneHotEncoder") == 0) {
        *keys = encode_find(pool, node, cats);
        *values = positions;
        values->count = keys->count;
    } else if (node->info->since_version < 2) { /* LabelEncoder-1: strings and their positions */
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
    encode_state *s = calloc(1, sizeof *s);
    encode_list keys, values;
    inlay_status status = INLAY_OK;
    int64_t *positions = NULL;

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a table of labels");
    s->one_hot = strcmp(node->info->op_type.data, "OneHotEncoder") == 0;
    s->zeros = kit_attr_int(node->info, "zeros", 1) != 0;
    encode_lists(&s->pool, node, &keys, &values);
    s->to = s->one_hot ? INLAY_INT64 : kit_output_dtype(node, 0);
    if (keys.count == 0 || keys.count != values.count || keys.count > INT32_MAX ||
        (!s->one_hot && values.dtype != s->to)) {
        status = inlay_fail(
            diag, INLAY_INVALID_MODEL,
            "%lld keys and %lld values of type %s do not make a table to %s; both lists must be there and "
            "equally long",
            (long long)keys.count, (long long)values.count, inlay_dtype_name(values.dtype), inlay_dtype_name(s->to));
    } else {
        if (keys.data == NULL) { /* LabelEncoder-1 from positions */
            positions = malloc((size_t)keys.count * sizeof *positions);
            for (int64_t i = 0; positions != NULL && i < keys.count; i++)
                positions[i] = i;
            keys.data = positions;
        }
        if (keys.data != NULL) {
            encode_keys(s, keys);
            encode_values(node, s, values);
        }
        if (keys.data == NULL || s->pool.failed)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a table of labels");
    }
    free(positions);
    if (status == INLAY_OK && (encode_kind(kit_input_dtype(node, 0)) == INLAY_STRING) != (s->from == INLAY_STRING))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "X and the keys must both be strings, or neither");
    if (status == INLAY_OK)
        *out_state = s;
    else
        release_encode(s);
    return status;
}

/* ------------------------------------------------------------------ run */

enum { ENCODE_BLOCK = 256 };

static inline int32_t place_of(const encode_state *s, uint64_t word, const inlay_str *text)
{
    const encode_slot *slot = find_slot(s, word, text);

    return slot->place != NOWHERE ? slot->place : (int32_t)s->listed;
}

/* Where n elements of x from `first` on stand in the list of keys; the place behind the last where one does not. */
static void find_places(const encode_state *s, const kit_tensor *x, int64_t first, int64_t n, int32_t *places)
{
    const inlay_str *texts = x->data;
    int64_t integers[ENCODE_BLOCK];
    double reals[ENCODE_BLOCK];

    if (s->from == INLAY_STRING) {
        for (int64_t i = 0; i < n; i++)
            places[i] = place_of(s, word_of_text(texts[first + i]), &texts[first + i]);
        return;
    }
    if (s->from == INLAY_DOUBLE || encode_kind(x->dtype) == INLAY_DOUBLE)
        convert_to_f64(reals, x->dtype, x->data, first, n);
    if (s->from == INLAY_DOUBLE) {
        for (int64_t i = 0; i < n; i++)
            places[i] = place_of(s, word_of_real(reals[i]), NULL);
        return;
    }
    if (encode_kind(x->dtype) == INLAY_DOUBLE) {
        for (int64_t i = 0; i < n; i++)
            integers[i] = f64_to_i64(reals[i]);
    } else {
        convert_to_i64(integers, x->dtype, x->data, first, n);
    }
    if (s->direct != NULL) {
        for (int64_t i = 0; i < n; i++) {
            const uint64_t at = (uint64_t)integers[i] - (uint64_t)s->least;
            places[i] = at < s->span ? s->direct[at] : (int32_t)s->listed;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        places[i] = place_of(s, (uint64_t)integers[i], NULL);
}

/* Rows of zeros and a one. */
static inlay_status put_rows(const kit_call *call, const int32_t *places, int64_t first, int64_t n)
{
    const encode_state *s = call->state;
    float *rows = (float *)call->out[0].data + first * s->listed;

    memset(rows, 0, (size_t)(n * s->listed) * sizeof *rows);
    for (int64_t i = 0; i < n; i++) {
        if (places[i] < s->listed)
            rows[i * s->listed + places[i]] = 1;
        else if (!s->zeros)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "element %lld of X is in no category, which zeros = 0 does not allow",
                              (long long)(first + i));
    }
    return INLAY_OK;
}

static inlay_status put_values(const kit_call *call, const int32_t *places, int64_t first, int64_t n)
{
    const encode_state *s = call->state;
    const size_t elem = inlay_dtype_bits(s->to) / 8;
    char *to = (char *)call->out[0].data + (size_t)first * elem;
    inlay_status status = INLAY_OK;

    if (s->to == INLAY_STRING) {
        for (int64_t i = 0; i < n && status == INLAY_OK; i++)
            status = ml_put_string(call, ((const inlay_str *)s->values)[places[i]], (inlay_str *)(void *)to + i);
    } else if (elem == 4) {
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)(void *)to)[i] = ((const uint32_t *)s->values)[places[i]];
    } else if (elem == 8) {
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)(void *)to)[i] = ((const uint64_t *)s->values)[places[i]];
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)i * elem, (const char *)s->values + (size_t)places[i] * elem, elem);
    }
    return status;
}

static inlay_status encode_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const encode_state *s = call->state;
    int32_t places[ENCODE_BLOCK];
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t i = begin; i < end && status == INLAY_OK; i += ENCODE_BLOCK) {
        const int64_t n = end - i < ENCODE_BLOCK ? end - i : ENCODE_BLOCK;

        find_places(s, &call->in[0], i, n, places);
        status = (s->one_hot ? put_rows : put_values)(call, places, i, n);
    }
    return status;
}

static inlay_status run_encode(const kit_call *call)
{
    const encode_state *s = call->state;
    int64_t count = call->in[0].count;
    kit_call job = *call;

    if (call->out[0].count != (s->one_hot ? count * s->listed : count))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements for %lld of X",
                          (long long)call->out[0].count, (long long)count);
    return kit_parallel(call, count, s->to == INLAY_STRING ? count + 1 : ENCODE_GRAIN, encode_range, &job);
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
const kit_table OPERATOR(reference_ml_encode) = { kernels, KIT_COUNT(kernels) };

/* LabelEncoder (ai.onnx.ml 1, 2, 4), CategoryMapper (1), OneHotEncoder (1): tables from keys to values. */
#include "ml.h"

enum { ENCODE_GRAIN = 1 << 11 };

/* A key: the member that the table's kind says. NaN equals NaN. */
typedef struct encode_key {
    union {
        inlay_str text;
        int64_t integer;
        double real;
    } as;
    uint32_t position; /* in the list of keys */
} encode_key;

typedef int (*encode_compare)(const void *a, const void *b);

static int compare_texts(const void *a, const void *b)
{
    const inlay_str *x = &((const encode_key *)a)->as.text, *y = &((const encode_key *)b)->as.text;
    uint64_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = n > 0 ? memcmp(x->data, y->data, (size_t)n) : 0;

    return order != 0 ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}
static int compare_integers(const void *a, const void *b)
{
    int64_t x = ((const encode_key *)a)->as.integer, y = ((const encode_key *)b)->as.integer;
    return (x > y) - (x < y);
}
static int compare_reals(const void *a, const void *b)
{
    double x = ((const encode_key *)a)->as.real, y = ((const encode_key *)b)->as.real;

    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

typedef struct encode_state {
    ml_pool pool;
    encode_compare compare;
    encode_key *keys;    /* [count] ascending */
    uint32_t count;      /* of different keys */
    int64_t listed;      /* of keys as listed: the place of the default, the columns of OneHotEncoder */
    inlay_dtype from;    /* STRING, INT64 or DOUBLE: how keys are compared */
    inlay_dtype to;      /* element type of values */
    void *values;        /* [count + 1] by position, the last is the default */
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

/* Sorts keys; of equal ones the last counts, as in a dictionary that is filled in order. */
static void encode_keys(encode_state *s, encode_list keys)
{
    inlay_str *texts = keys.dtype == INLAY_STRING ? ml_strings(&s->pool, keys.data, (uint64_t)keys.count) : NULL;
    uint32_t kept = 0;

    s->from = encode_kind(keys.dtype);
    s->compare = s->from == INLAY_STRING ? compare_texts : s->from == INLAY_DOUBLE ? compare_reals : compare_integers;
    s->keys = ml_alloc(&s->pool, (uint64_t)keys.count, sizeof *s->keys);
    if (s->pool.failed)
        return;
    for (uint32_t i = 0; i < (uint32_t)keys.count; i++) {
        encode_key key = { .position = i };
        if (s->from == INLAY_STRING)
            key.as.text = texts[i];
        else if (s->from == INLAY_DOUBLE)
            key.as.real = convert_get_f64(keys.dtype, keys.data, i);
        else
            key.as.integer = convert_get_i64(keys.dtype, keys.data, i);
        s->keys[i] = key;
    }
    qsort(s->keys, (size_t)keys.count, sizeof *s->keys, s->compare);
    for (uint32_t i = 0; i < (uint32_t)keys.count; i++) {
        if (kept > 0 && s->compare(&s->keys[kept - 1], &s->keys[i]) == 0) {
            if (s->keys[i].position > s->keys[kept - 1].position)
                s->keys[kept - 1] = s->keys[i];
        } else {
            s->keys[kept++] = s->keys[i];
        }
    }
    s->count = kept;
    s->listed = keys.count;
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

/* Where element i of x stands in the list of keys, -1 if it does not. */
static int64_t encode_look_up(const encode_state *s, const kit_tensor *x, int64_t i)
{
    encode_key key = { .position = 0 };
    const encode_key *found;

    if (s->from == INLAY_STRING)
        key.as.text = ((const inlay_str *)x->data)[i];
    else if (s->from == INLAY_DOUBLE)
        key.as.real = convert_get_f64(x->dtype, x->data, i);
    else if (x->dtype == INLAY_FLOAT || x->dtype == INLAY_DOUBLE)
        key.as.integer = f64_to_i64(convert_get_f64(x->dtype, x->data, i));
    else
        key.as.integer = convert_get_i64(x->dtype, x->data, i);
    found = bsearch(&key, s->keys, s->count, sizeof key, s->compare);
    return found != NULL ? (int64_t)found->position : -1;
}

static inlay_status encode_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const encode_state *s = call->state;
    const kit_tensor *x = &call->in[0];
    kit_tensor *y = &call->out[0];
    size_t elem = inlay_dtype_bits(s->to) / 8;
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t i = begin; i < end && status == INLAY_OK; i++) {
        int64_t at = encode_look_up(s, x, i);
        if (s->one_hot) {
            float *row = (float *)y->data + i * s->listed;
            memset(row, 0, (size_t)s->listed * sizeof *row);
            if (at >= 0)
                row[at] = 1;
            else if (!s->zeros)
                return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                                  "element %lld of X is in no category, which zeros = 0 does not allow", (long long)i);
            continue;
        }
        at = at >= 0 ? at : s->listed;
        if (s->to == INLAY_STRING)
            status = ml_put_string(call, ((const inlay_str *)s->values)[at], (inlay_str *)y->data + i);
        else
            memcpy((char *)y->data + (size_t)i * elem, (const char *)s->values + (size_t)at * elem, elem);
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
const kit_table reference_ml_encode = { kernels, KIT_COUNT(kernels) };

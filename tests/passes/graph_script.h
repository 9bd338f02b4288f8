/* graph_script.h - small models as a few lines of text:
 *
 *     x : 2,3,8                           a float input; "x : 2,N" has a named dimension, "x : -" is a scalar
 *     x : uint8 2,3                       an input of another type
 *     c = [8]                             a float constant with random elements in [0.5, 1.5]
 *     c = [8] @3 nan                      the same but for element 3
 *     h = [] 0.5      p = i[4] 0,0,1,1    constants with elements; i = int64
 *     q = uint8[2] 3,4   t = string[2] a,b   constants of other types, with elements
 *     y = Mul(x, c)   z = Transpose(y) perm=0,2,1    w, v = Split(z) axis=1
 *     y = If(c) then:Neg(x) else:Add(x,z) branches of one node each, which read values from outside
 *     y = ms.QLinearMul(...)              an operator of com.microsoft; tr. is ai.onnx.preview.training
 *     -> w, v                             outputs; "=> w, v" declares no type for them
 *
 * Attributes are integers, floats (with a point), lists of either (with a comma, "axes=1," is a list of one), words,
 * lists of words ("xs='a,b"), or numbers as a tensor ("value=#2.5" float, "value=#2" int64). "_" is an omitted input.
 */
#ifndef GRAPH_SCRIPT_H
#define GRAPH_SCRIPT_H
#include "rig.h"
#include <ctype.h>
#include <math.h>

/* A repeatable number in [0, 1). */
static inline float script_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 16777216.0f;
}

static inline char *script_trim(char *text)
{
    size_t n;

    while (isspace((unsigned char)*text))
        text++;
    for (n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

/* "a, b" -> "a,b" */
static inline char *script_squeeze(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++)
        if (!isspace((unsigned char)*from))
            *to++ = *from;
    *to = '\0';
    return text;
}

/* "uint8", "i" for int64, "" for float. */
static inline inlay_dtype script_dtype(const char *name, size_t bytes)
{
    if (bytes <= 1)
        return bytes == 1 && *name == 'i' ? INLAY_INT64 : INLAY_FLOAT;
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (strlen(inlay_dtype_name(dtype)) == bytes && memcmp(inlay_dtype_name(dtype), name, bytes) == 0)
            return dtype;
    fail_msg("type %s", name);
    return INLAY_UNDEFINED;
}

static inline void script_constant(struct wire *w, const char *name, char *text, uint32_t *state)
{
    const inlay_dtype dtype = script_dtype(text, strcspn(text, "["));
    const bool ints = dtype != INLAY_FLOAT;
    int64_t planted = -1;
    float plant = 0;
    char *shape = strchr(text, '[') + 1, *values = strchr(text, ']');
    int64_t dims[INLAY_MAX_RANK], count = 1;
    wire_mark t = wire_begin(w, MW_INITIALIZER);
    uint32_t rank;

    *values++ = '\0';
    rank = rig_dims(shape, dims);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    mw_tensor_head(w, name, (int)dtype, rank, dims);
    values = script_trim(values);
    if (*values == '@') {
        planted = strtoll(values + 1, &values, 10);
        plant = strtof(values, &values);
    }
    for (int64_t i = 0; i < count; i++) {
        const float drawn = 0.5f + (*values == '\0' ? script_random(state) : 0);

        if (dtype == INLAY_STRING) {
            wire_bytes(w, 6, values, strcspn(values, ","));
            values += strcspn(values, ",");
        } else if (ints) {
            wire_int(w,
                     dtype == INLAY_INT64                             ? 7
                     : dtype == INLAY_UINT32 || dtype == INLAY_UINT64 ? 11
                                                                      : 5,
                     strtoll(values, &values, 10));
        } else {
            wire_float(w, 4, i == planted ? plant : *values == '\0' && rank > 0 ? drawn : strtof(values, &values));
        }
        values += *values == ',';
    }
    wire_end(w, t);
}

static inline void script_attr(struct wire *w, char *text)
{
    char *value = strchr(text, '=');
    int64_t list[16];
    wire_mark a, t;
    uint32_t n = 0;

    *value++ = '\0';
    if (*value == '\'') {
        char *more = NULL;

        a = rig_attr_begin(w, text, 8);
        for (char *s = strtok_r(value + 1, ",", &more); s != NULL; s = strtok_r(NULL, ",", &more))
            wire_text(w, 9, s);
        wire_end(w, a);
    } else if (*value == '#') {
        const bool is_float = strchr(value, '.') != NULL;

        a = rig_attr_begin(w, text, 4);
        t = wire_begin(w, 5);
        mw_tensor_head(w, NULL, is_float ? INLAY_FLOAT : INLAY_INT64, 1, (const int64_t[]){ 1 });
        if (is_float)
            wire_float(w, 4, strtof(value + 1, NULL));
        else
            wire_int(w, 7, strtoll(value + 1, NULL, 10));
        wire_end(w, t);
        wire_end(w, a);
    } else if (strchr(value, ',') != NULL && strchr(value, '.') != NULL) {
        a = rig_attr_begin(w, text, 6);
        for (; *value != '\0'; value += *value == ',')
            wire_float(w, 7, strtof(value, &value));
        wire_end(w, a);
    } else if (isalpha((unsigned char)*value)) {
        a = rig_attr_begin(w, text, 3);
        wire_text(w, 4, value);
        wire_end(w, a);
    } else if (strchr(value, ',') != NULL) {
        for (; *value != '\0'; value += *value == ',')
            list[n++] = strtoll(value, &value, 10);
        rig_attr_ints(w, text, n, list);
    } else if (strchr(value, '.') != NULL) {
        a = rig_attr_begin(w, text, 1);
        wire_float(w, 2, strtof(value, NULL));
        wire_end(w, a);
    } else {
        rig_attr_int(w, text, strtoll(value, NULL, 10));
    }
}

/* "then:Op(inputs)" */
static inline void script_branch(struct wire *w, char *text, const char *output)
{
    char *op = strchr(text, ':') + 1, *inputs = strchr(op, '('), name[24], inner[40];
    mw_body b;

    *inputs++ = '\0';
    *strchr(inputs, ')') = '\0';
    op[-1] = '\0';
    (void)snprintf(name, sizeof name, "%s_branch", text);
    (void)snprintf(inner, sizeof inner, "%s_%s", output, text);
    b = mw_body_begin(w, name, name);
    mw_node(w, op, inputs, inner);
    mw_value(w, MW_OUTPUT, inner, RIG_FLOAT, NULL);
    mw_body_end(w, b);
}

static inline void script_node(struct wire *w, char *outputs, char *text)
{
    char *inputs = strchr(text, '('), *attrs = strchr(text, ')'), *next = NULL;
    bool contributed, training;
    wire_mark n;

    *inputs++ = '\0';
    *attrs++ = '\0';
    text = script_trim(text);
    contributed = strncmp(text, "ms.", 3) == 0;
    training = strncmp(text, "tr.", 3) == 0;
    n = mw_node_begin(w, contributed || training ? text + 3 : text, script_squeeze(inputs), script_squeeze(outputs));
    if (contributed)
        wire_text(w, 7, "com.microsoft");
    if (training)
        wire_text(w, 7, "ai.onnx.preview.training");
    for (char *a = strtok_r(attrs, " ", &next); a != NULL; a = strtok_r(NULL, " ", &next))
        if (strchr(a, ':') != NULL)
            script_branch(w, a, outputs);
        else
            script_attr(w, a);
    wire_end(w, n);
}

/* Writes the model. */
static inline void script_model(struct wire *w, const char *script, int64_t opset)
{
    char *copy = strdup(script), *next = NULL, *at;
    wire_mark g = mw_begin(w, 8, opset);
    inlay_dtype dtype;
    uint32_t state = 7;

    for (char *line = strtok_r(copy, "\n", &next); line != NULL; line = strtok_r(NULL, "\n", &next)) {
        line = script_trim(line);
        if (strncmp(line, "->", 2) == 0 || strncmp(line, "=>", 2) == 0) {
            char *more = NULL;
            for (char *o = strtok_r(line + 2, ", ", &more); o != NULL; o = strtok_r(NULL, ", ", &more))
                mw_value(w, MW_OUTPUT, o, *line == '-' ? RIG_FLOAT : 0, NULL);
        } else if ((at = strstr(line, " : ")) != NULL) {
            *at = '\0';
            at = script_trim(at + 3);
            dtype = INLAY_FLOAT;
            if (isalpha((unsigned char)*at) && at[strcspn(at, " ,")] == ' ') {
                dtype = script_dtype(at, strcspn(at, " "));
                at += strcspn(at, " ");
            }
            at = script_squeeze(at);
            mw_value(w, MW_INPUT, line, (int)dtype, strcmp(at, "-") == 0 ? "" : at);
        } else if ((at = strstr(line, " = ")) != NULL) {
            *at = '\0';
            at = script_trim(at + 3);
            if (at[strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789")] == '[')
                script_constant(w, line, at, &state);
            else
                script_node(w, line, at);
        }
    }
    wire_end(w, g);
    if (strstr(script, "ms.") != NULL)
        mw_opset(w, 8, "com.microsoft", 1);
    if (strstr(script, "tr.") != NULL)
        mw_opset(w, 8, "ai.onnx.preview.training", 1);
    free(copy);
}

/* Random floats for every input, sizes that are not known are `unknown`; so great a share of them (0 to 1) NaN,
 * infinities, zeros of both signs, ones. */
static inline void script_feed_sized(struct rig *r, int64_t unknown, uint32_t seed, float share)
{
    const float odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0f, 1, -1 };

    for (uint32_t i = 0; i < inlay_session_input_count(r->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        int64_t dims[INLAY_MAX_RANK];
        inlay_value *v = NULL;

        (void)inlay_session_input(r->session, i, &info);
        for (uint32_t d = 0; d < info.rank; d++)
            dims[d] = info.dims[d] < 0 ? unknown : info.dims[d];
        assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, dims, &v, NULL), INLAY_OK);
        for (int64_t k = 0; k < inlay_value_count(v); k++) {
            float x = 6 * script_random(&seed) - 3;

            if (share > 0 && script_random(&seed) < share)
                x = odd[(int)(script_random(&seed) * 7)];
            ((float *)inlay_value_data(v))[k] = x;
        }
        rig_bind(r, i, v);
    }
}

static inline void script_feed_odd(struct rig *r, uint32_t seed, float share)
{
    script_feed_sized(r, 3, seed, share);
}

static inline void script_feed(struct rig *r, uint32_t seed)
{
    script_feed_odd(r, seed, 0);
}
#endif

/* graph_script.h - small models as a few lines of text:
 *
 *     x : 2,3,8                           a float input; "x : 2,N" has a named dimension, "x : -" is a scalar
 *     x : uint8 2,3                       an input of another type
 *     c = [8]                             a float constant with random elements in [0.5, 1.5]
 *     c = [8] @3 nan                      the same, with another element 3
 *     h = [] 0.5      p = i[4] 0,0,1,1    constants with elements; i = int64
 *     q = uint8[2] 3,4   t = string[2] a,b   constants of other types, with elements
 *     y = Mul(x, c)   z = Transpose(y) perm=0,2,1    w, v = Split(z) axis=1
 *     y = If(c) then:Neg(x) else:Add(x,z) branches of one node each, which read values from outside
 *     y = ms.QLinearMul(...)              an operator of com.microsoft; tr. is ai.onnx.preview.training
 *     -> w, v                             outputs; "=> w, v" declares no type for them, "-> w : 2,3" a shape for one (-
 *     is a scalar)
 *
 * Attributes are integers, floats (with a point), lists of either (with a comma, "axes=1," is a list of one), words,
 * lists of words ("xs='a,b"), or numbers as a tensor ("value=#2.5" float, "value=#2" int64). "_" is an omitted
 * input. */
#ifndef GRAPH_SCRIPT_H
#define GRAPH_SCRIPT_H
#include "rig.h"
#include "random.h"
#include <ctype.h>
#include <math.h>

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

/* Parses "uint8", "i" for int64, "" for float. */
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

static inline void script_constant(struct wire *wire, const char *name, char *text, uint64_t *state)
{
    const inlay_dtype dtype = script_dtype(text, strcspn(text, "["));
    /* floats and int64 are raw data, which the loader leaves at its address in the file */
    const size_t raw_size = dtype == INLAY_FLOAT ? sizeof(float) : dtype == INLAY_INT64 ? sizeof(int64_t) : 0;
    int64_t planted = -1;
    float plant = 0;
    char *shape = strchr(text, '[') + 1, *values = strchr(text, ']');
    int64_t dims[INLAY_MAX_RANK], count = 1;
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    void *raw = NULL;
    uint32_t rank;

    *values++ = '\0';
    rank = rig_dims(shape, dims);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    if (raw_size > 0 && count > 0)
        assert_non_null(raw = malloc((size_t)count * raw_size));
    mw_tensor_head(wire, name, (int)dtype, rank, dims);
    values = script_trim(values);
    if (*values == '@') {
        planted = strtoll(values + 1, &values, 10);
        plant = strtof(values, &values);
    }
    for (int64_t i = 0; i < count; i++) {
        const float drawn = 0.5f + (*values == '\0' ? random_unit(state) : 0);

        if (dtype == INLAY_STRING) {
            wire_bytes(wire, 6, values, strcspn(values, ","));
            values += strcspn(values, ",");
        } else if (dtype == INLAY_INT64) {
            ((int64_t *)raw)[i] = strtoll(values, &values, 10);
        } else if (dtype != INLAY_FLOAT) {
            wire_int(wire, dtype == INLAY_UINT32 || dtype == INLAY_UINT64 ? 11 : 5, strtoll(values, &values, 10));
        } else {
            ((float *)raw)[i] = i == planted ? plant : *values == '\0' && rank > 0 ? drawn : strtof(values, &values);
        }
        values += *values == ',';
    }
    if (raw != NULL)
        wire_bytes(wire, 9, raw, (size_t)count * raw_size);
    free(raw);
    wire_end(wire, mark);
}

static inline void script_attr(struct wire *wire, char *text)
{
    char *value = strchr(text, '=');
    int64_t list[16];
    wire_mark mark, t;
    uint32_t n = 0;

    *value++ = '\0';
    if (*value == '\'') {
        char *more = NULL;

        mark = rig_attr_begin(wire, text, 8);
        for (char *s = strtok_r(value + 1, ",", &more); s != NULL; s = strtok_r(NULL, ",", &more))
            wire_text(wire, 9, s);
        wire_end(wire, mark);
    } else if (*value == '#') {
        const bool is_float = strchr(value, '.') != NULL;

        mark = rig_attr_begin(wire, text, 4);
        t = wire_begin(wire, 5);
        mw_tensor_head(wire, NULL, is_float ? INLAY_FLOAT : INLAY_INT64, 1, (const int64_t[]){ 1 });
        if (is_float)
            wire_float(wire, 4, strtof(value + 1, NULL));
        else
            wire_int(wire, 7, strtoll(value + 1, NULL, 10));
        wire_end(wire, t);
        wire_end(wire, mark);
    } else if (strchr(value, ',') != NULL && strchr(value, '.') != NULL) {
        mark = rig_attr_begin(wire, text, 6);
        for (; *value != '\0'; value += *value == ',')
            wire_float(wire, 7, strtof(value, &value));
        wire_end(wire, mark);
    } else if (isalpha((unsigned char)*value)) {
        mark = rig_attr_begin(wire, text, 3);
        wire_text(wire, 4, value);
        wire_end(wire, mark);
    } else if (strchr(value, ',') != NULL) {
        for (; *value != '\0'; value += *value == ',')
            list[n++] = strtoll(value, &value, 10);
        rig_attr_ints(wire, text, n, list);
    } else if (strchr(value, '.') != NULL) {
        mark = rig_attr_begin(wire, text, 1);
        wire_float(wire, 2, strtof(value, NULL));
        wire_end(wire, mark);
    } else {
        rig_attr_int(wire, text, strtoll(value, NULL, 10));
    }
}

/* Writes a branch: "then:Op(inputs)". */
static inline void script_branch(struct wire *wire, char *text, const char *output)
{
    char *op = strchr(text, ':') + 1, *inputs = strchr(op, '('), name[24], inner[40];
    mw_body body;

    *inputs++ = '\0';
    *strchr(inputs, ')') = '\0';
    op[-1] = '\0';
    (void)snprintf(name, sizeof name, "%s_branch", text);
    (void)snprintf(inner, sizeof inner, "%s_%s", output, text);
    body = mw_body_begin(wire, name, name);
    mw_node(wire, op, inputs, inner);
    mw_value(wire, MW_OUTPUT, inner, RIG_FLOAT, NULL);
    mw_body_end(wire, body);
}

static inline void script_node(struct wire *wire, char *outputs, char *text)
{
    char *inputs = strchr(text, '('), *attrs = strchr(text, ')'), *next = NULL;
    bool contributed, training;
    wire_mark mark;

    *inputs++ = '\0';
    *attrs++ = '\0';
    text = script_trim(text);
    contributed = strncmp(text, "ms.", 3) == 0;
    training = strncmp(text, "tr.", 3) == 0;
    mark =
        mw_node_begin(wire, contributed || training ? text + 3 : text, script_squeeze(inputs), script_squeeze(outputs));
    if (contributed)
        wire_text(wire, 7, "com.microsoft");
    if (training)
        wire_text(wire, 7, "ai.onnx.preview.training");
    for (char *a = strtok_r(attrs, " ", &next); a != NULL; a = strtok_r(NULL, " ", &next))
        if (strchr(a, ':') != NULL)
            script_branch(wire, a, outputs);
        else
            script_attr(wire, a);
    wire_end(wire, mark);
}

/* Writes the model of a script. */
static inline void script_model(struct wire *wire, const char *script, int64_t opset)
{
    char *copy = strdup(script), *next = NULL, *at;
    wire_mark mark = mw_begin(wire, 8, opset);
    inlay_dtype dtype;
    uint64_t state = 7;

    for (char *line = strtok_r(copy, "\n", &next); line != NULL; line = strtok_r(NULL, "\n", &next)) {
        line = script_trim(line);
        if (strncmp(line, "->", 2) == 0 || strncmp(line, "=>", 2) == 0) {
            char *more = NULL, *shape = strstr(line, " : ");

            if (shape != NULL)
                *shape = '\0';
            for (char *o = strtok_r(line + 2, ", ", &more); o != NULL; o = strtok_r(NULL, ", ", &more))
                mw_value(wire, MW_OUTPUT, o, *line == '-' ? RIG_FLOAT : 0,
                         shape == NULL                 ? NULL
                         : strcmp(shape + 3, "-") == 0 ? ""
                                                       : shape + 3);
        } else if ((at = strstr(line, " : ")) != NULL) {
            *at = '\0';
            at = script_trim(at + 3);
            dtype = INLAY_FLOAT;
            if (isalpha((unsigned char)*at) && at[strcspn(at, " ,")] == ' ') {
                dtype = script_dtype(at, strcspn(at, " "));
                at += strcspn(at, " ");
            }
            at = script_squeeze(at);
            mw_value(wire, MW_INPUT, line, (int)dtype, strcmp(at, "-") == 0 ? "" : at);
        } else if ((at = strstr(line, " = ")) != NULL) {
            *at = '\0';
            at = script_trim(at + 3);
            if (at[strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789")] == '[')
                script_constant(wire, line, at, &state);
            else
                script_node(wire, line, at);
        }
    }
    wire_end(wire, mark);
    if (strstr(script, "ms.") != NULL)
        mw_opset(wire, 8, "com.microsoft", 1);
    if (strstr(script, "tr.") != NULL)
        mw_opset(wire, 8, "ai.onnx.preview.training", 1);
    free(copy);
}

/* Returns random floats for an input; dimensions of unknown size get `unknown`. A share (0 to 1) of the elements are
 * NaN, infinities, zeros of both signs, ones. */
static inline inlay_value *script_input(const struct rig *rig, uint32_t input, int64_t unknown, uint64_t *seed,
                                        float share)
{
    const float odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0f, 1, -1 };
    inlay_io_info info = { .struct_size = sizeof info };
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *value = NULL;
    float *data;
    int64_t count;

    (void)inlay_session_input(rig->session, input, &info);
    for (uint32_t d = 0; d < info.rank; d++)
        dims[d] = info.dims[d] < 0 ? unknown : info.dims[d];
    assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, dims, &value, NULL), INLAY_OK);
    data = inlay_value_data(value);
    count = inlay_value_count(value);
    for (int64_t k = 0; k < count; k++) {
        float x = 3 * random_signed(seed);

        if (share > 0 && random_unit(seed) < share)
            x = odd[random_below(seed, 7)];
        data[k] = x;
    }
    return value;
}

/* Sets every input as script_input() does. */
static inline void script_feed_sized(struct rig *rig, int64_t unknown, uint64_t seed, float share)
{
    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++)
        rig_bind(rig, i, script_input(rig, i, unknown, &seed, share));
}

static inline void script_feed_odd(struct rig *rig, uint64_t seed, float share)
{
    script_feed_sized(rig, 3, seed, share);
}

static inline void script_feed(struct rig *rig, uint64_t seed)
{
    script_feed_odd(rig, seed, 0);
}
#endif

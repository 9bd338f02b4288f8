/* model_script.h - small models as a few lines of text:
 *
 *     x : 2,3,8                           a float input; "x : 2,N" has a named dimension, "x : -" is a scalar
 *     x : uint8 2,3                       an input of another type; "x : uint8" declares no shape
 *     l : sequence float                  a sequence or an optional ("optional float") of tensors
 *     c = [8]                             a float constant with random elements in [0.5, 1.5]
 *     c = [8] @3 nan                      the same, with another element 3
 *     h = [] 0.5      p = i[4] 0,0,1,1    constants with elements; i = int64
 *     q = uint8[2] 3,4   t = string[2] a,b   constants of other types, with elements
 *     y = Mul(x, c)   z = Transpose(y) perm=0,2,1    w, v = Split(z) axis=1
 *     y = Relu(x) @name                   a node with a name
 *     y = If(c) then:Neg(x) else:Add(x,z) branches of one node each, which read values from outside
 *     y = Loop(n,_,x) body {              a node with a body, whose lines follow; "}" ends it, and
 *     } else_branch {                     begins another
 *     y = ms.QLinearMul(...)              an operator of com.microsoft; pv. is ai.onnx.preview
 *     -> w, v                             outputs; "=> w, v" declares no type for them; types and shapes are those of
 *                                         inputs: "-> w : 2,3", "-> w, v : int64"
 *
 * Attributes are integers, floats (with a point), lists of either (with a comma, "axes=1," is a list of one), words,
 * lists of words ("xs='a,b"), numbers as a tensor ("value=#2.5" float, "value=#2" int64), or types ("to=int32"). "_" is
 * an omitted input. A mistake in a script ends the process. */
#ifndef MODEL_SCRIPT_H
#define MODEL_SCRIPT_H
#include "model_writer.h"
#include "random.h"
#include <ctype.h>
#include <stdarg.h>

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

static inline void script_mistake(const char *what, const char *text)
{
    (void)fprintf(stderr, "model script: %s '%s'\n", what, text);
    exit(1);
}

/* Returns INLAY_UNDEFINED if no type has the name. */
static inline inlay_dtype script_find_dtype(const char *name, size_t bytes)
{
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (strlen(inlay_dtype_name(dtype)) == bytes && memcmp(inlay_dtype_name(dtype), name, bytes) == 0)
            return dtype;
    return INLAY_UNDEFINED;
}

/* Parses "uint8", "i" for int64, "" for float. */
static inline inlay_dtype script_dtype(const char *name, size_t bytes)
{
    inlay_dtype dtype;

    if (bytes <= 1)
        return bytes == 1 && *name == 'i' ? INLAY_INT64 : INLAY_FLOAT;
    dtype = script_find_dtype(name, bytes);
    if (dtype == INLAY_UNDEFINED)
        script_mistake("type", name);
    return dtype;
}

/* Writes an input or output. spec: what follows " : "; NULL: `dtype` without a shape. */
static inline void script_value(struct wire *wire, uint32_t field, const char *name, const char *spec,
                                inlay_dtype dtype)
{
    const size_t word = spec == NULL ? 0 : strcspn(spec, " ,");
    const bool is_list = spec != NULL && (strncmp(spec, "sequence ", 9) == 0 || strncmp(spec, "optional ", 9) == 0);

    if (is_list) {
        mw_list_value(wire, field, name, *spec == 's' ? 4 : 9, (int)script_dtype(spec + 9, strlen(spec + 9)));
        return;
    }
    if (word > 0 && spec[word] != ',' && script_find_dtype(spec, word) != INLAY_UNDEFINED) {
        dtype = script_dtype(spec, word);
        spec = spec[word] == '\0' ? NULL : spec + word + 1;
    }
    mw_value(wire, field, name, (int)dtype, spec != NULL && strcmp(spec, "-") == 0 ? "" : spec);
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
    rank = mw_dims(shape, dims);
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    if (raw_size > 0 && count > 0 && (raw = malloc((size_t)count * raw_size)) == NULL)
        abort();
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

        mark = mw_attr_begin(wire, text, 8);
        for (char *s = strtok_r(value + 1, ",", &more); s != NULL; s = strtok_r(NULL, ",", &more))
            wire_text(wire, 9, s);
        wire_end(wire, mark);
    } else if (*value == '#') {
        const bool is_float = strchr(value, '.') != NULL;

        mark = mw_attr_begin(wire, text, 4);
        t = wire_begin(wire, 5);
        mw_tensor_head(wire, NULL, is_float ? INLAY_FLOAT : INLAY_INT64, 1, (const int64_t[]){ 1 });
        if (is_float)
            wire_float(wire, 4, strtof(value + 1, NULL));
        else
            wire_int(wire, 7, strtoll(value + 1, NULL, 10));
        wire_end(wire, t);
        wire_end(wire, mark);
    } else if (strchr(value, ',') != NULL && strchr(value, '.') != NULL) {
        mark = mw_attr_begin(wire, text, 6);
        for (; *value != '\0'; value += *value == ',')
            wire_float(wire, 7, strtof(value, &value));
        wire_end(wire, mark);
    } else if (strcmp(text, "to") == 0 && isalpha((unsigned char)*value)) {
        mw_attr_int(wire, text, script_dtype(value, strlen(value)));
    } else if (isalpha((unsigned char)*value)) {
        mark = mw_attr_begin(wire, text, 3);
        wire_text(wire, 4, value);
        wire_end(wire, mark);
    } else if (strchr(value, ',') != NULL) {
        for (; *value != '\0'; value += *value == ',')
            list[n++] = strtoll(value, &value, 10);
        mw_attr_ints(wire, text, n, list);
    } else if (strchr(value, '.') != NULL) {
        mark = mw_attr_begin(wire, text, 1);
        wire_float(wire, 2, strtof(value, NULL));
        wire_end(wire, mark);
    } else {
        mw_attr_int(wire, text, strtoll(value, NULL, 10));
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
    mw_value(wire, MW_OUTPUT, inner, INLAY_FLOAT, NULL);
    mw_body_end(wire, body);
}

/* Writes a node, without its end. */
static inline wire_mark script_node(struct wire *wire, char *outputs, char *text)
{
    char *inputs = strchr(text, '('), *attrs = strchr(text, ')'), *next = NULL;
    bool contributed, preview;
    wire_mark mark;

    if (inputs == NULL || attrs == NULL)
        script_mistake("node", text);
    *inputs++ = '\0';
    *attrs++ = '\0';
    text = script_trim(text);
    contributed = strncmp(text, "ms.", 3) == 0;
    preview = strncmp(text, "pv.", 3) == 0;
    mark =
        mw_node_begin(wire, contributed || preview ? text + 3 : text, script_squeeze(inputs), script_squeeze(outputs));
    if (contributed)
        wire_text(wire, 7, "com.microsoft");
    if (preview)
        wire_text(wire, 7, "ai.onnx.preview");
    for (char *a = strtok_r(attrs, " ", &next); a != NULL; a = strtok_r(NULL, " ", &next))
        if (*a == '@')
            wire_text(wire, 3, a + 1);
        else if (strchr(a, ':') != NULL)
            script_branch(wire, a, outputs);
        else
            script_attr(wire, a);
    return mark;
}

/* A script that is being written. */
struct script_writer {
    struct wire *wire;
    uint64_t seed; /* of random constants */
    struct {
        wire_mark node;
        mw_body body;
    } open[4]; /* nodes whose body is not at its end, the outermost first */
    uint32_t depth;
};

/* Removes "attr {" from the end of a line. Returns the attribute's name, or NULL if the line opens no body. */
static inline char *script_cut_body(char *line)
{
    char *brace = strchr(line, '{'), *attr;

    if (brace == NULL)
        return NULL;
    *brace = '\0';
    (void)script_trim(line);
    attr = strrchr(line, ' ');
    if (attr == NULL)
        script_mistake("body", line);
    *attr = '\0';
    return attr + 1;
}

static inline void script_line(struct script_writer *script, char *line)
{
    struct wire *wire = script->wire;
    char *at, *attr, *more = NULL;
    wire_mark node;

    if (strncmp(line, "->", 2) == 0 || strncmp(line, "=>", 2) == 0) {
        char *spec = strstr(line, " : ");

        if (spec != NULL)
            *spec = '\0';
        for (char *o = strtok_r(line + 2, ", ", &more); o != NULL; o = strtok_r(NULL, ", ", &more))
            script_value(wire, MW_OUTPUT, o, spec == NULL ? NULL : script_trim(spec + 3),
                         *line == '-' ? INLAY_FLOAT : INLAY_UNDEFINED);
    } else if (*line == '}') {
        mw_body_end(wire, script->open[script->depth - 1].body);
        if ((attr = script_cut_body(line)) != NULL) {
            script->open[script->depth - 1].body = mw_body_begin(wire, attr, attr);
        } else {
            wire_end(wire, script->open[--script->depth].node);
        }
    } else if ((at = strstr(line, " : ")) != NULL) {
        *at = '\0';
        script_value(wire, MW_INPUT, script_trim(line), script_trim(at + 3), INLAY_FLOAT);
    } else if ((at = strstr(line, " = ")) != NULL) {
        *at = '\0';
        at = script_trim(at + 3);
        if (at[strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789")] == '[') {
            script_constant(wire, line, at, &script->seed);
            return;
        }
        attr = script_cut_body(at);
        node = script_node(wire, line, at);
        if (attr == NULL) {
            wire_end(wire, node);
            return;
        }
        if (script->depth == sizeof script->open / sizeof *script->open)
            script_mistake("too many bodies in", line);
        script->open[script->depth].node = node;
        script->open[script->depth++].body = mw_body_begin(wire, attr, attr);
    } else if (*line != '\0') {
        script_mistake("line", line);
    }
}

/* Writes the lines of a format, as of printf, to a graph that is open. */
__attribute__((format(printf, 2, 3))) static inline void script_add(struct wire *wire, const char *format, ...)
{
    struct script_writer script = { .wire = wire, .seed = 7 };
    char *text = NULL, *next = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    for (char *line = strtok_r(text, "\n", &next); line != NULL; line = strtok_r(NULL, "\n", &next))
        script_line(&script, script_trim(line));
    if (script.depth > 0)
        script_mistake("no } in", format);
    free(text);
}

/* Writes the model of a script. */
static inline void script_model(struct wire *wire, int64_t opset, const char *script)
{
    wire_mark mark = mw_begin(wire, 8, opset);

    script_add(wire, "%s", script);
    wire_end(wire, mark);
    if (strstr(script, "ms.") != NULL)
        mw_opset(wire, 8, "com.microsoft", 1);
    if (strstr(script, "pv.") != NULL)
        mw_opset(wire, 8, "ai.onnx.preview", 1);
}
#endif
